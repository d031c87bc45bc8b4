//! Warnings about programs and scripts of hooks that cannot be started.

use std::{
    borrow::Cow,
    env,
    ffi::OsStr,
    fs::{self, File, Metadata},
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use super::loader::Loader;
use crate::{
    config::{
        settings::{config_file::Config, hooks::HookSpec},
        source_span::Problem,
    },
    protocol::DIRECTORY_VARIABLES,
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

/// Programs whose first argument is the file that they run.
const INTERPRETERS: &[&str] = &["bash", "node", "python3", "sh"];

/// Permission bits with which a file can be executed.
const EXECUTABLE: u32 = 0o111;

/// Most bytes of the first line of a script that the kernel reads.
const MAX_INTERPRETER_BYTES: u64 = 256;

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
    let command = unquoted(hook.command()?.trim_start());
    if let Some((variable, path)) = below_directory(&command) {
        let path = first_word(path).filter(|_| !hook.sets_variable(variable))?;
        let here = format!(
            ": the variable is `hook_directory` (`{}`)",
            directory.display()
        );
        return unusable_file(&directory.join(path), &format!("${variable}/{path}"), &here);
    }
    let program = first_word(&command)?;
    if program.contains('/') {
        return unusable_file(&directory.join(program), program, missing_from(program));
    }
    if SHELL_WORDS.contains(&program) || hook.sets_variable("PATH") {
        return None;
    }
    let path = env::var_os("PATH")?;
    if !is_in(&path, directory, program) {
        return Some(format!("there is no program `{program}` in `PATH`"));
    }
    let script = script_argument(&command, program)?;
    // Shells also look for it in `PATH`.
    let is_missing = fs::exists(directory.join(script)).is_ok_and(|exists| !exists)
        && !is_in(&path, directory, script);
    is_missing.then(|| format!("there is no script `{script}`{}", missing_from(script)))
}

/// Returns the file that an interpreter runs, if it is the first argument. A name without an
/// extension may be a folder, or a module of Node.js.
fn script_argument<'a>(command: &'a str, interpreter: &str) -> Option<&'a str> {
    let arguments = command.strip_prefix(interpreter)?.trim_start();
    let script = first_word(arguments)?;
    let is_file = !script.starts_with('-') && Path::new(script).extension().is_some();
    (INTERPRETERS.contains(&interpreter) && is_file).then_some(script)
}

/// Returns the end of a message about a missing file: the directory of a relative path.
fn missing_from(path: &str) -> &'static str {
    if Path::new(path).is_absolute() {
        ""
    } else {
        " in `hook_directory`"
    }
}

/// Returns the reason why a file cannot be started as `program`. `here` ends the message if there
/// is no such file.
fn unusable_file(file: &Path, program: &str, here: &str) -> Option<String> {
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_dir() => Some(format!("`{program}` is a folder")),
        Ok(metadata) if !is_executable(&metadata) => {
            Some(format!("the program `{program}` is not executable"))
        }
        Ok(metadata) if metadata.is_file() && has_crlf_interpreter(file) => Some(format!(
            "the first line of the program `{program}` ends with CRLF, so its interpreter is not found, or refuses its argument"
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("there is no program `{program}`{here}"))
        }
        _ => None,
    }
}

/// Returns whether a file is a script whose first line ends with CRLF. Behind an argument, only
/// perl and `env -S` accept it.
fn has_crlf_interpreter(file: &Path) -> bool {
    let mut line = String::new();
    let read = File::open(file).and_then(|file| {
        let mut start = BufReader::new(file.take(MAX_INTERPRETER_BYTES));
        start.read_line(&mut line)
    });
    let line = line.strip_prefix("#!").filter(|_| read.is_ok());
    let line = line.and_then(|line| line.strip_suffix("\r\n"));
    let mut words = line.into_iter().flat_map(str::split_whitespace);
    match (words.next(), words.next()) {
        (Some(program), Some(argument)) => {
            let is_option_of_env = program.ends_with("/env") && argument.starts_with('-');
            !program.ends_with("/perl") && !is_option_of_env
        }
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// Returns a command without the quotes around its beginning, if these change nothing there.
fn unquoted(command: &str) -> Cow<'_, str> {
    let quoted = command.strip_prefix('"');
    let Some((start, rest)) = quoted.and_then(|quoted| quoted.split_once('"')) else {
        return command.into();
    };
    if start
        .chars()
        .all(|char| is_plain(char) || "${}".contains(char))
    {
        return format!("{start}{rest}").into();
    }
    command.into()
}

/// Returns the variable with the directory of hooks with which a command begins, and the command
/// after it.
fn below_directory(command: &str) -> Option<(&'static str, &str)> {
    let start = command.strip_prefix('$')?;
    DIRECTORY_VARIABLES.iter().find_map(|name| {
        let braced = format!("{{{name}}}");
        let rest = start
            .strip_prefix(name)
            .or_else(|| start.strip_prefix(&braced))?;
        Some((*name, rest.strip_prefix('/')?.trim_start_matches('/')))
    })
}

/// Returns the first word of a command, if the shell takes it as it is.
fn first_word(command: &str) -> Option<&str> {
    let end = command.find(|char| !is_plain(char));
    let (word, rest) = command.split_at(end.unwrap_or(command.len()));
    let is_end = |char: char| char.is_ascii_whitespace() || ";&|<>".contains(char);
    let is_whole = rest.chars().next().is_none_or(is_end);
    (is_whole && !word.is_empty()).then_some(word)
}

/// Returns whether the shell takes a character as it is.
fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || "_-./+@%:[".contains(char)
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
            ("guard;true", Some("guard")),
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
