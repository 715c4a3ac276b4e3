// Written by `agenteval hook install --for opencode`; `agenteval hook remove` takes it away.
import { spawn } from "node:child_process"
const COMMAND = []
const CLOSED = true
const models = new Map()
const ask = (sent) =>
  new Promise((done) => {
    let said = ""
    const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "ignore", "pipe"] })
    child.on("error", (error) => done([CLOSED ? 2 : 1, `agenteval hook: ${error.message}`]))
    child.stderr.on("data", (part) => (said += part))
    child.on("close", (code) => done([code ?? (CLOSED ? 2 : 1), said]))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(sent))
  })
const judge = async (sent) => {
  const [code, said] = await ask(sent)
  if (code === 0) return
  if (code === 2 || CLOSED) throw new Error(said.trim() || "agenteval hook: no answer: denied")
  console.error(said.trim())
}
// OpenCode 1 calls `server`, OpenCode 2 `setup`; one object, as 2 takes no function.
export default {
  id: "agenteval",
  server: async ({ directory }) => ({
    "chat.params": async (input) => {
      const { sessionID, agent, model } = input
      models.set(sessionID, { agent: agent?.name ?? agent, model: model?.id ?? model?.modelID })
    },
    "tool.execute.before": async (input, output) => {
      const { tool, sessionID: session, callID: call } = input
      const known = models.get(session) ?? {}
      await judge({ tool, session, call, args: output.args, directory, ...known })
    },
  }),
  setup: async (ctx) => {
    await ctx.tool.hook("execute.before", async (event) => {
      const { tool, sessionID: session, callID: call, input: args, agent, model } = event
      const directory = ctx.location?.directory
      const known = { agent: agent?.name ?? agent, model: model?.id ?? model?.modelID }
      await judge({ tool, session, call, args, directory, ...known })
    })
  },
}
