//! Warnings about programs of hooks that cannot be started.

use std::{
    env,
    ffi::OsStr,
    fs::{self, Metadata},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use super::loader::Loader;
use crate::config::{
    settings::{config_file::Config, hooks::HookSpec},
    source_span::Problem,
};

/// First words of commands that bash runs itself: its builtins and reserved words.
const SHELL_WORDS: &[&str] = &[
    ".",
    ":",
    "[",
    "[[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

/// Permission bits with which a file can be executed.
const EXECUTABLE: u32 = 0o111;

impl Loader {
    /// Warns of each hook whose command begins with a program that is missing.
    pub(super) fn warn_of_missing_programs(&mut self, config: &Config) {
        let hooks = config.hooks.iter().flat_map(|(event, groups)| {
            let hooks = groups.iter().flat_map(|group| &group.hooks);
            hooks.map(move |hook| (event, hook))
        });
        let warnings = hooks.filter_map(|(event, hook)| {
            // Processes of a bundle's hooks run in its folder.
            let layer = self.layers.iter().find(|layer| layer.contains(&hook.span));
            let directory = layer.map_or(&config.hook_directory, |layer| &layer.directory);
            let problem = missing_program(hook, directory)?;
            let label = hook.label();
            let message = format!("hook `{label}` on {event}: {problem}");
            Some(Problem::at(&hook.span, message))
        });
        self.warnings.extend(warnings);
    }
}

/// Returns the reason why the program of a hook's command cannot be started, if that is certain.
fn missing_program(hook: &HookSpec, directory: &Path) -> Option<String> {
    let program = first_word(hook.command()?)?;
    if program.contains('/') {
        return match fs::metadata(directory.join(program)) {
            Ok(metadata) if metadata.is_dir() => Some(format!("`{program}` is a folder")),
            Ok(metadata) if !is_executable(&metadata) => {
                Some(format!("the program `{program}` is not executable"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let from = if Path::new(program).is_absolute() {
                    ""
                } else {
                    " in `hook_directory`"
                };
                Some(format!("there is no program `{program}`{from}"))
            }
            _ => None,
        };
    }
    if SHELL_WORDS.contains(&program) || hook.sets_variable("PATH") {
        return None;
    }
    let path = env::var_os("PATH")?;
    (!is_in(&path, directory, program))
        .then(|| format!("there is no program `{program}` in `PATH`"))
}

/// Returns the first word of a command, if the shell takes it as it is.
fn first_word(command: &str) -> Option<&str> {
    let command = command.trim_start();
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./+@%:[".contains(char);
    let end = command.find(|char| !is_plain(char));
    let (word, rest) = command.split_at(end.unwrap_or(command.len()));
    let is_end = |char: char| char.is_ascii_whitespace() || ";&|<>".contains(char);
    let is_whole = rest.chars().next().is_none_or(is_end);
    (is_whole && !word.is_empty()).then_some(word)
}

fn is_in(path: &OsStr, directory: &Path, program: &str) -> bool {
    env::split_paths(path).any(|folder| {
        let metadata = fs::metadata(directory.join(folder).join(program));
        metadata.is_ok_and(|metadata| metadata.is_file() && is_executable(&metadata))
    })
}

fn is_executable(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & EXECUTABLE != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_first_words_are_programs() {
        for (command, word) in [
            ("./guard.sh --x", Some("./guard.sh")),
            ("  guard;true", Some("guard")),
            ("guard", Some("guard")),
            ("/opt/a+b.py|cat", Some("/opt/a+b.py")),
            ("$DIR/guard.sh", None),
            ("\"./a b.sh\"", None),
            ("'guard'", None),
            ("KEY=value guard", None),
            ("~/guard.sh", None),
            ("./guard-*.sh", None),
            ("{ guard; }", None),
            ("(guard)", None),
            ("guard() { true; }", None),
            ("./a\\ b.sh", None),
            ("! guard", None),
            ("# nothing", None),
            ("> out", None),
            ("guärd", None),
        ] {
            assert_eq!(first_word(command), word, "{command}");
        }
    }
}
