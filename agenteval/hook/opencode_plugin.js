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
export const AgentevalHook = async ({ directory }) => ({
  "chat.params": async (input) => {
    const { sessionID, agent, model } = input
    models.set(sessionID, { agent: agent?.name ?? agent, model: model?.id ?? model?.modelID })
  },
  "tool.execute.before": async (input, output) => {
    const { tool, sessionID: session, callID: call } = input
    const known = models.get(session) ?? {}
    const [code, said] = await ask({ tool, session, call, args: output.args, directory, ...known })
    if (code === 0) return
    if (code === 2 || CLOSED) throw new Error(said.trim() || "agenteval hook: no answer: denied")
    console.error(said.trim())
  },
})
