//! Names that agents give to tools of the same kind: the shell is `Bash` to Claude
//! Code, `run_shell_command` to gemini-cli and `exec_command` to Codex. Matchers of a
//! hook are compared with all names that its family has for a call. Pure.
//!
//! To add a tool, add a name to a row of [`TOOLS`].

use std::collections::BTreeMap;

use crate::event::mcp_tool;

/// Agents that share names of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolFamily {
    /// gemini-cli and its forks.
    Gemini,
    /// LLxprt Code, a fork of gemini-cli that has two names for the path of a file.
    Llxprt,
    /// Claude Code by Anthropic.
    Claude,
    /// Codex, as its hooks name tools.
    Codex,
}

/// Tools that do the same, by the names that agents have for them.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolKind {
    /// Name in the listing of `hookgate check`.
    pub name: &'static str,
    /// Names in gemini-cli and its forks; the first is shown to their hooks.
    gemini: &'static [&'static str],
    /// Names in Claude Code; the first is shown to its hooks.
    claude: &'static [&'static str],
    /// Names in hooks of Codex; the first is shown to them.
    codex: &'static [&'static str],
    /// Names on the wire in Codex, opencode, and the tools of model APIs.
    others: &'static [&'static str],
}

/// Names in matchers of Codex for tools that have other names in it.
const CODEX_MATCHER_ALIASES: [&str; 3] = ["Agent", "Edit", "Write"];

/// Kind of tools with several operations, of which the argument `command` names one.
const EDITOR: &str = "editor";

/// Declares the kinds of tools: `name: [gemini] [claude] [codex] [others];`.
macro_rules! tools {
    ($($name:tt: $gemini:tt $claude:tt $codex:tt $others:tt;)+) => {
        const TOOLS: &[ToolKind] = &[$(ToolKind {
            name: $name,
            gemini: &$gemini,
            claude: &$claude,
            codex: &$codex,
            others: &$others,
        }),+];
    };
}

// All known kinds. A name on the wire belongs to one kind.
//
// Sources: <https://code.claude.com/docs/en/hooks> (Claude Code),
// <https://developers.openai.com/codex/hooks> (`Bash`, `apply_patch`),
// <https://github.com/openai/codex> `codex-rs/core/src/tools` (`Write`, `Edit` and `Agent`
// as further matches), <https://geminicli.com/docs/tools>,
// <https://opencode.ai/docs/tools> and recorded calls of LLxprt Code, whose tools for lines and
// syntax trees have names of their own in gemini-cli's family.
tools! {
    "shell": ["run_shell_command"] ["Bash"]
        ["Bash"] ["shell", "shell_command", "local_shell", "exec_command", "bash"];
    "patch": ["replace", "write_file"] ["Edit", "Write", "MultiEdit"]
        ["apply_patch", "Write", "Edit"] ["apply_patch", "patch"];
    EDITOR: ["replace", "write_file"] ["Edit", "Write", "MultiEdit"]
        ["Edit", "Write", "apply_patch"] ["str_replace_based_edit_tool", "str_replace_editor"];
    "edit": ["replace"] ["Edit", "MultiEdit"]
        ["Edit", "apply_patch"] ["replace", "Edit", "MultiEdit", "edit"];
    "insert lines": ["insert_at_line", "replace"] ["Edit"] ["Edit", "apply_patch"] [];
    "delete lines": ["delete_line_range", "replace"] ["Edit"] ["Edit", "apply_patch"] [];
    "edit syntax": ["ast_edit", "replace"] ["Edit"] ["Edit", "apply_patch"] [];
    "notebook": ["replace"] ["NotebookEdit"] ["Edit", "apply_patch"] [];
    "write": ["write_file"] ["Write"] ["Write", "apply_patch"] ["write_file", "Write", "write"];
    "read": ["read_file"] ["Read"] ["read_file"] ["read"];
    "read files": ["read_many_files"] ["Read"] ["read_file"] [];
    "read lines": ["read_line_range", "read_file"] ["Read"] ["read_file"] [];
    "read syntax": ["ast_read_file", "read_file"] ["Read"] ["read_file"] [];
    "list": ["list_directory"] ["LS"] ["list_dir"] ["list"];
    "glob": ["glob"] ["Glob"] ["glob"] [];
    "grep": ["search_file_content", "grep_search"] ["Grep"] ["grep_files"] ["grep"];
    "fetch": ["web_fetch", "direct_web_fetch"] ["WebFetch"] ["web_fetch"] ["webfetch"];
    "search": ["google_web_search", "exa_web_search"] ["WebSearch"] ["web_search"] ["websearch"];
    "agent": ["task", "invoke_agent"] ["Agent", "Task"] ["spawn_agent", "Agent"] [];
    "todo": ["write_todos", "todo_write"] ["TodoWrite"] ["update_plan"] ["todowrite"];
}

impl ToolKind {
    /// Returns the names that hooks of a family may have for this kind.
    pub const fn names(&self, family: ToolFamily) -> &'static [&'static str] {
        match family {
            ToolFamily::Gemini | ToolFamily::Llxprt => self.gemini,
            ToolFamily::Claude => self.claude,
            ToolFamily::Codex => self.codex,
        }
    }

    /// Returns the names in other agents and on the wire.
    pub const fn others(&self) -> &'static [&'static str] {
        self.others
    }

    /// Finds the kind of a tool: an exact name on the wire comes before names that
    /// hooks have for it.
    fn find(name: &str) -> Option<&'static Self> {
        let by_wire = TOOLS.iter().find(|kind| kind.others.contains(&name));
        let families = [ToolFamily::Gemini, ToolFamily::Claude, ToolFamily::Codex];
        let has_name = |kind: &&Self| {
            families
                .map(|family| kind.names(family))
                .concat()
                .contains(&name)
        };
        by_wire.or_else(|| TOOLS.iter().find(has_name))
    }
}

/// An entry of the config for one name on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolNameOverride {
    /// The tool means the same as the one of this name.
    SameAs(String),
    /// The tool means nothing that has a name in hooks of other agents.
    Unmapped,
}

/// Names that hooks of one family have for a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolAliases {
    /// The names, the one that hooks usually receive first.
    pub names: Vec<String>,
    /// Names of its arguments.
    pub arguments: ArgumentNames,
    /// True if the family itself has a tool of the name on the wire.
    pub is_own: bool,
}

/// Names that agents have for the arguments of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArgumentNames {
    /// The tool is no known one.
    #[default]
    Unknown,
    /// Agents have different names.
    Known,
    /// As `Known`, and `command` names an operation.
    Editor,
}

/// The names of tools, with the overrides of the config.
#[derive(Debug, Clone, Default)]
pub struct ToolNames {
    overrides: BTreeMap<String, ToolNameOverride>,
}

impl ToolNames {
    /// Adds the overrides of the config to the built-in names.
    pub fn new(overrides: impl IntoIterator<Item = (String, ToolNameOverride)>) -> Self {
        Self {
            overrides: overrides.into_iter().collect(),
        }
    }

    /// Returns the built-in kinds.
    pub const fn kinds() -> &'static [ToolKind] {
        TOOLS
    }

    /// Returns the names of the config.
    pub const fn overrides(&self) -> &BTreeMap<String, ToolNameOverride> {
        &self.overrides
    }

    /// Returns the names that hooks of a family have for the tool `wire`.
    pub fn of(&self, family: ToolFamily, wire: &str) -> ToolAliases {
        let meant = match self.overrides.get(wire) {
            Some(ToolNameOverride::Unmapped) => return ToolAliases::default(),
            Some(ToolNameOverride::SameAs(name)) => name,
            None => wire,
        };
        let known = ToolKind::find(meant);
        let aliases: Vec<String> = match known {
            // LLxprt Code runs a hook for `replace` on no other of its tools.
            Some(kind) if family == ToolFamily::Llxprt && kind.gemini.contains(&wire) => {
                vec![wire.to_owned()]
            }
            Some(kind) => {
                let aliases = kind.names(family).iter();
                aliases.map(|alias| (*alias).to_owned()).collect()
            }
            None if meant != wire => vec![meant.to_owned()],
            None => mcp_names(family, meant),
        };
        let is_alias = family == ToolFamily::Codex && CODEX_MATCHER_ALIASES.contains(&wire);
        ToolAliases {
            is_own: !is_alias && aliases.iter().any(|alias| alias == wire),
            names: aliases,
            arguments: match known {
                Some(kind) if kind.name == EDITOR => ArgumentNames::Editor,
                Some(_) => ArgumentNames::Known,
                None => ArgumentNames::Unknown,
            },
        }
    }
}

/// Returns the names that a family has for an MCP tool, that on the wire first.
fn mcp_names(family: ToolFamily, wire: &str) -> Vec<String> {
    let Some((server, tool)) = mcp_tool(wire) else {
        return Vec::new();
    };
    let name = format!("mcp__{server}__{tool}");
    match family {
        // Documents of gemini-cli have both names.
        ToolFamily::Gemini | ToolFamily::Llxprt => {
            let mut names = vec![format!("mcp_{server}_{tool}"), name];
            names.sort_by_key(|name| name != wire);
            names
        }
        ToolFamily::Claude | ToolFamily::Codex => vec![name],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(family: ToolFamily, wire: &str, expected: &[&str]) {
        assert_eq!(
            ToolNames::default().of(family, wire).names,
            expected,
            "{wire}"
        );
    }

    #[test]
    fn a_tool_has_the_name_of_each_family() {
        for wire in ["Bash", "run_shell_command", "exec_command", "shell", "bash"] {
            check(ToolFamily::Claude, wire, &["Bash"]);
            check(ToolFamily::Codex, wire, &["Bash"]);
            check(ToolFamily::Gemini, wire, &["run_shell_command"]);
        }
        check(ToolFamily::Claude, "read_file", &["Read"]);
        check(ToolFamily::Claude, "replace", &["Edit", "MultiEdit"]);
        check(ToolFamily::Claude, "deploy", &[]);
        check(
            ToolFamily::Gemini,
            "insert_at_line",
            &["insert_at_line", "replace"],
        );
        check(ToolFamily::Llxprt, "insert_at_line", &["insert_at_line"]);
        check(ToolFamily::Llxprt, "Edit", &["replace"]);
        let is_own = |family, wire| ToolNames::default().of(family, wire).is_own;
        assert!(is_own(ToolFamily::Claude, "Bash"));
        assert!(!is_own(ToolFamily::Claude, "bash"));
        assert!(is_own(ToolFamily::Codex, "apply_patch"));
        assert!(!is_own(ToolFamily::Codex, "Write"));
    }

    #[test]
    fn a_patch_is_an_edit_and_a_write() {
        let claude = ["Edit", "Write", "MultiEdit"];
        check(ToolFamily::Claude, "apply_patch", &claude);
        let codex = ["apply_patch", "Write", "Edit"];
        check(ToolFamily::Codex, "apply_patch", &codex);
        check(
            ToolFamily::Gemini,
            "apply_patch",
            &["replace", "write_file"],
        );
        for wire in ["write_file", "Write"] {
            check(ToolFamily::Codex, wire, &["Write", "apply_patch"]);
        }
    }

    #[test]
    fn a_tool_of_an_mcp_server_is_named_by_the_familys_convention() {
        check(ToolFamily::Claude, "mcp_gh_find", &["mcp__gh__find"]);
        let names = ["mcp_gh_find", "mcp__gh__find"];
        check(ToolFamily::Gemini, "mcp_gh_find", &names);
        check(ToolFamily::Llxprt, "gh__find", &names);
        let names = ["mcp__gh__find", "mcp_gh_find"];
        check(ToolFamily::Gemini, "mcp__gh__find", &names);
        check(ToolFamily::Codex, "mcp__gh__find", &["mcp__gh__find"]);
    }

    #[test]
    fn the_config_overrides_a_name() {
        let same_as = |name: &str| ToolNameOverride::SameAs(name.to_owned());
        let names = ToolNames::new([
            ("my_shell".to_owned(), same_as("Bash")),
            ("shell".to_owned(), ToolNameOverride::Unmapped),
            ("ship".to_owned(), same_as("deploy")),
        ]);
        let of = |family, wire| names.of(family, wire).names;

        assert_eq!(of(ToolFamily::Gemini, "my_shell"), ["run_shell_command"]);
        assert!(of(ToolFamily::Claude, "shell").is_empty());
        assert_eq!(of(ToolFamily::Claude, "ship"), ["deploy"]);
    }

    #[test]
    fn a_name_on_the_wire_belongs_to_one_kind() {
        let mut seen = Vec::new();
        for name in TOOLS.iter().flat_map(|kind| kind.others) {
            assert!(!seen.contains(name), "{name}");
            seen.push(*name);
        }
    }
}
