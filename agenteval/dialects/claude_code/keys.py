"""The keys of Claude Code's settings.json: read here, without effect on verdicts, or neither.

By the schema of SchemaStore of 7 August 2026 (tests/dialects/published_keys).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agenteval.core.policy.policy import UnheededKey
from agenteval.dialects.settings_keys import SettingsKeys

_OWN_HOOK = "/hook/client.py"  # in the command of the hook that `agenteval hook install` puts in
# Variables by which Claude Code, or a program that a command starts, does something else.
_STEERING = re.compile(
    r"(?:LD|DYLD|GIT|PIP|NPM|PYTHON|PERL|RUBY|NODE|JAVA)_.*|BASH_ENV|ENV|PATH|IFS|HOME|SHELL|PAGER"
    r"|EDITOR|VISUAL|CDPATH|SHELLOPTS|BASHOPTS|CLAUDE_CODE_SHELL\w*|CLAUDE_ENV_FILE|CLAUDE_CONFIG_DIR"
    r"|CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR|CLAUDE_AGENT_SDK_MCP_NO_PREFIX"
    r"|CLAUDE_CODE_(?:SIMPLE|SUBPROCESS_ENV_SCRUB|USE_POWERSHELL_TOOL|ADDITIONAL_DIRECTORIES\w*)"
)
_MANAGED = "rules of other files may not count, or others may"
_SERVERS = "decides which MCP servers there are, and so which tools"
_SKILLS = "decides which skills there are"
_MODELLED = (
    *(f"permissions.{key}" for key in ("allow", "ask", "deny", "defaultMode")),
    *("permissions.additionalDirectories", "permissions.disableBypassPermissionsMode"),
    *("sandbox.enabled", "sandbox.autoAllowBashIfSandboxed", "sandbox.excludedCommands"),
    "sandbox.allowUnsandboxedCommands",
)
_EVENTS = (
    *("PostToolUse", "PostToolUseFailure", "Notification", "UserPromptSubmit", "Stop"),
    *("StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "Elicitation"),
    *("ElicitationResult", "TeammateIdle", "TaskCompleted", "Setup", "InstructionsLoaded"),
    *("CwdChanged", "FileChanged", "ConfigChange", "WorktreeCreate", "WorktreeRemove"),
    *("SessionStart", "SessionEnd", "PostToolBatch", "TaskCreated", "PermissionDenied"),
    *("UserPromptExpansion", "MessageDisplay", "DirectoryAdded"),
)
# What a command in the sandbox may touch, not whether it may run; auto mode counts as default.
_OF_SANDBOX = (
    *("filesystem", "ignoreViolations", "ripgrep", "bwrapPath", "socatPath", "credentials"),
    *("enableWeakerNetworkIsolation", "enableWeakerNestedSandbox", "allowAppleEvents"),
    *(f"network.{key}" for key in ("allowUnixSockets", "allowLocalBinding", "httpProxyPort")),
    *(f"network.{key}" for key in ("socksProxyPort", "allowAllUnixSockets", "allowMachLookup")),
    *("network.tlsTerminate", "network.strictAllowlist"),
)
_HARMLESS = (
    *(f"hooks.{event}" for event in _EVENTS),
    *(f"sandbox.{key}" for key in _OF_SANDBOX),
    *("permissions.disableAutoMode", "disableAutoMode", "autoMode", "env.*"),
    # Accounts, models, what a model reads
    *("$schema", "apiKeyHelper", "awsCredentialExport", "awsAuthRefresh", "gcpAuthRefresh"),
    *("model", "availableModels", "modelOverrides", "effortLevel", "fastMode", "advisorModel"),
    *("fastModePerSessionOptIn", "fallbackModel", "enforceAvailableModels", "teammateDefaultModel"),
    *("forceLoginMethod", "forceLoginOrgUUID", "forceLoginGatewayUrl", "otelHeadersHelper"),
    *("autoMemoryEnabled", "autoMemoryDirectory", "claudeMdExcludes", "claudeMd", "language"),
    *("outputStyle", "includeGitInstructions", "includeCoAuthoredBy", "attribution"),
    *("alwaysThinkingEnabled", "skillListingMaxDescChars", "skillListingBudgetFraction"),
    *("autoCompactEnabled", "workflowKeywordTriggerEnabled", "workflowSizeGuideline"),
    # What a user sees, and where things are kept
    *("autoUpdatesChannel", "minimumVersion", "requiredMaximumVersion", "requiredMinimumVersion"),
    *("cleanupPeriodDays", "plansDirectory", "respectGitignore", "statusLine", "fileSuggestion"),
    *("subagentStatusLine", "spinnerVerbs", "spinnerTipsEnabled", "spinnerTipsOverride"),
    *("terminalProgressBarEnabled", "showTurnDuration", "prefersReducedMotion", "prUrlTemplate"),
    *("companyAnnouncements", "teammateMode", "worktree", "showClearContextOnPlanAccept"),
    *("showThinkingSummaries", "tui", "viewMode", "voiceEnabled", "voice", "editorMode", "theme"),
    *("preferredNotifChannel", "wheelScrollAccelerationEnabled", "awaySummaryEnabled"),
    *("autoScrollEnabled", "agentPushNotifEnabled", "axScreenReader", "footerLinksRegexes"),
    *("inputNeededNotifEnabled", "remoteControlAtStartup", "disableRemoteControl", "verbose"),
    *("syntaxHighlightingDisabled", "askUserQuestionTimeout", "permissionExplainerEnabled"),
    *("diffTool", "externalEditorContext", "autoConnectIde", "autoInstallIdeExtension"),
    *("emojiCompletionEnabled", "vimInsertModeRemaps", "feedbackSurveyRate", "defaultShell"),
    *("respondToBashCommands", "fileCheckpointingEnabled", "disableAgentView", "processWrapper"),
    *("disableDeepLinkRegistration", "skipDangerousModePermissionPrompt", "channelsEnabled"),
    *("allowedChannelPlugins", "sshConfigs", "sshHostAllowlist", "browserExternalPageTools"),
    *("disableBrowserExternalNavigation", "disableMobileSimulatorTools", "disableArtifact"),
    *("enableArtifact", "disableWorkflows", "requireCoworkFullVmSandbox", "skipWebFetchPreflight"),
    # Where plug-ins come from, and servers that bring tools without rules for them
    *("extraKnownMarketplaces", "strictKnownMarketplaces", "skippedMarketplaces", "skippedPlugins"),
    *("blockedMarketplaces", "pluginTrustMessage", "pluginSuggestionMarketplaces"),
    *("enableAllProjectMcpServers", "enabledMcpjsonServers", "allowAllClaudeAiMcps"),
    *("managedMcpServers", "disableClaudeAiConnectors", "disableSideloadFlags"),
    *("httpHookAllowedEnvVars", "allowedHttpHookUrls", "disableSkillShellExecution"),
)
KEYS = SettingsKeys.of(
    _MODELLED,
    _HARMLESS,
    {
        "hooks.PreToolUse": "a hook may allow or deny a call, or change it",
        "hooks.PermissionRequest": "a hook may allow or deny what would be asked about",
        "disableAllHooks": "no hook runs, ours among them",
        "allowManagedHooksOnly": "only hooks of managed settings run, and ours is none of these",
        "strictPluginOnlyCustomization": "hooks of this file may not run",
        "allowManagedPermissionRulesOnly": "only rules of managed settings count",
        "parentSettingsBehavior": _MANAGED,
        "policyHelper": _MANAGED,
        "forceRemoteSettingsRefresh": _MANAGED,
        "wslInheritsWindowsSettings": _MANAGED,
        "agent": "its main agent may have fewer tools, and rules of its own",
        "enabledPlugins": "a plug-in may bring hooks, and these allow or deny",
        "pluginConfigs": "a plug-in may bring hooks, and these allow or deny",
        "useAutoModeDuringPlan": "while planning, a model decides what needs no rule",
        "disableBundledSkills": _SKILLS,
        "skillOverrides": _SKILLS,
        "disabledMcpjsonServers": _SERVERS,
        "allowedMcpServers": _SERVERS,
        "deniedMcpServers": _SERVERS,
        "allowManagedMcpServersOnly": _SERVERS,
        "sandbox.enabledPlatforms": "elsewhere there is no sandbox, and its commands need rules",
        "sandbox.failIfUnavailable": "where no sandbox can start, nothing runs at all",
        "sandbox.network.allowedDomains": "a sandboxed command asks before it reaches others",
        "sandbox.network.deniedDomains": "a sandboxed command cannot reach these",
        "sandbox.network.allowManagedDomainsOnly": "a sandboxed command cannot reach others",
    },
)


def unheeded(settings: Mapping[str, Any]) -> Iterator[UnheededKey]:
    """The keys that may change what Claude Code allows, and are not followed here."""
    yield from KEYS.unheeded(_without_own_hook(settings))
    variables = settings.get("env")
    for name in variables if isinstance(variables, Mapping) else ():
        if _STEERING.fullmatch(str(name)):
            reason = "it changes what Claude Code, or a program that a command starts, does"
            yield UnheededKey(f"env.{name}", reason)


def _without_own_hook(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings without the hook of ours, which judges by them."""
    hooks = settings.get("hooks")
    entries = hooks.get("PreToolUse") if isinstance(hooks, Mapping) else None
    if not isinstance(hooks, Mapping) or not isinstance(entries, list):
        return settings
    others = [entry for entry in entries if _OWN_HOOK not in str(entry)]
    return {**settings, "hooks": {**hooks, "PreToolUse": others}}
