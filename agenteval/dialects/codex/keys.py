"""The keys of Codex's config.toml: read here, without effect on verdicts, or neither.

By the schema in its repository (tests/dialects/published_keys). Rules stand in files of their own,
and the config next to their folder sets the approval policy under which they count.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.policy.policy import UnheededKey
from agenteval.dialects.settings_keys import SettingsKeys
from agenteval.errors import UsageError

_SANDBOX = "decides what an allowed command may touch, and which one asks to leave the sandbox"
_PROFILE = "its approval policy and sandbox count in place of those of the file"
_PERMISSIONS = "a profile of permissions decides what a command may touch"
_REVIEW = "what would be asked about may be allowed by a reviewer"
_SHELL = "decides which tool runs commands, and how"
_HOOKS = "a hook may allow or deny a call, or change it"
_SERVERS = "tools of servers and apps have approval modes of their own"
_FEATURES = {
    **dict.fromkeys(("hooks", "codex_hooks", "plugin_hooks", "plugins", "remote_plugin"), _HOOKS),
    **dict.fromkeys(("exec_permission_approvals", "request_permissions", "request_rule"), _REVIEW),
    **dict.fromkeys(("guardian_approval", "request_permissions_tool"), _REVIEW),
    **dict.fromkeys(("shell_tool", "unified_exec", "experimental_use_unified_exec_tool"), _SHELL),
    **dict.fromkeys(("shell_zsh_fork", "unified_exec_zsh_fork", "js_repl", "code_mode"), _SHELL),
    **dict.fromkeys(("js_repl_tools_only", "code_mode_only", "shell_snapshot"), _SHELL),
    **dict.fromkeys(("use_legacy_landlock", "use_linux_sandbox_bwrap", "network_proxy"), _SANDBOX),
    **dict.fromkeys(("elevated_windows_sandbox", "experimental_windows_sandbox"), _SANDBOX),
    "enable_experimental_windows_sandbox": _SANDBOX,
    "non_prefixed_mcp_tool_names": "tools of servers have other names",
}
_FEATURES_HARMLESS = (
    *("apply_patch_freeform", "apply_patch_streaming_events", "apps", "apps_mcp_path_override"),
    *("auth_elicitation", "browser_use", "browser_use_external", "child_agents_md", "chronicle"),
    *("codex_git_commit", "collab", "collaboration_modes", "computer_use", "connectors", "goals"),
    *("default_mode_request_user_input", "enable_fanout", "enable_mcp_apps", "fast_mode", "steer"),
    *("enable_request_compression", "external_migration", "image_detail_original", "memories"),
    *("image_generation", "imagegenext", "in_app_browser", "local_thread_store_compression"),
    *("memory_tool", "mentions_v2", "multi_agent", "multi_agent_v2", "personality", "undo"),
    *("plugin_sharing", "prevent_idle_sleep", "realtime_conversation", "remote_compaction_v2"),
    *("remote_control", "remote_models", "responses_websocket_response_processed", "sqlite"),
    *("responses_websockets", "responses_websockets_v2", "runtime_metrics", "search_tool"),
    *("skill_env_var_dependency_prompt", "skill_mcp_dependency_install", "standalone_web_search"),
    *("telepathy", "terminal_resize_reflow", "tool_call_mcp_elicitation", "tool_search"),
    *("tool_search_always_defer_mcp_tools", "tool_suggest", "tui_app_server", "web_search"),
    *("unavailable_dummy_tools", "web_search_cached", "web_search_request"),
    *("workspace_dependencies", "workspace_owner_usage_nudge"),
)
KEYS = SettingsKeys.of(
    (),
    (
        *(
            "agents",
            "analytics",
            "apps_mcp_product_sku",
            "audio",
            "background_terminal_max_timeout",
        ),
        *("chatgpt_base_url", "check_for_update_on_startup", "cli_auth_credentials_store", "debug"),
        *("compact_prompt", "desktop", "developer_instructions", "disable_paste_burst", "history"),
        *("experimental_compact_prompt_file", "experimental_realtime_start_instructions"),
        *("experimental_realtime_ws_backend_prompt", "experimental_realtime_ws_base_url"),
        *("experimental_realtime_ws_model", "experimental_realtime_ws_startup_context"),
        *("experimental_thread_store", "feedback", "file_opener", "forced_chatgpt_workspace_id"),
        *("forced_login_method", "ghost_snapshot", "hide_agent_reasoning", "instructions"),
        *("include_apps_instructions", "include_collaboration_mode_instructions", "log_dir"),
        *("include_environment_context", "include_permissions_instructions", "marketplaces"),
        *("mcp_oauth_callback_port", "mcp_oauth_callback_url", "mcp_oauth_credentials_store"),
        *("memories", "model", "model_auto_compact_token_limit", "model_catalog_json", "notice"),
        *("model_auto_compact_token_limit_scope", "model_context_window", "model_provider"),
        *("model_instructions_file", "model_providers", "model_reasoning_effort", "notify"),
        *("model_reasoning_summary", "model_supports_reasoning_summaries", "model_verbosity"),
        *("openai_base_url", "oss_provider", "otel", "personality", "plan_mode_reasoning_effort"),
        *("project_doc_fallback_filenames", "project_doc_max_bytes", "project_root_markers"),
        *("realtime", "review_model", "service_tier", "show_raw_agent_reasoning", "skills", "tui"),
        *("sqlite_home", "suppress_unstable_features_warning", "tool_output_token_limit"),
        *("tool_suggest", "tools", "web_search"),
        *(f"features.{name}" for name in _FEATURES_HARMLESS),
    ),
    {
        "approval_policy": "rules are read under `untrusted`, unless codex-on-request: or "
        "codex-never: stands before the path",
        "approvals_reviewer": _REVIEW,
        "auto_review": _REVIEW,
        "sandbox_mode": _SANDBOX,
        "sandbox_workspace_write": _SANDBOX,
        "windows": _SANDBOX,
        "default_permissions": _PERMISSIONS,
        "permissions": _PERMISSIONS,
        "profile": _PROFILE,
        "profiles": _PROFILE,
        "experimental_thread_config_endpoint": _PROFILE,
        "projects": "a folder that is not trusted has another approval policy",
        "allow_login_shell": _SHELL,
        "experimental_use_unified_exec_tool": _SHELL,
        "shell_environment_policy": "decides which variables a command has",
        "hooks": _HOOKS,
        "plugins": _HOOKS,
        "mcp_servers": _SERVERS,
        "apps": _SERVERS,
        **{f"features.{name}": reason for name, reason in _FEATURES.items()},
    },
)


def unheeded(rules: Path) -> Iterator[UnheededKey]:
    """Return the keys of the config next to a folder of rules, or to that of a rules file.

    Raises UsageError where it is there and is no TOML: under it Codex would not start.
    """
    folder = rules if rules.is_dir() else rules.parent
    config = folder.resolve().parent / "config.toml"
    if folder.resolve().name != "rules" or not config.is_file():
        return
    yield from KEYS.unheeded(_tables(config))


def _tables(config: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{config}: cannot be read as TOML: {error}: mend it first") from error
