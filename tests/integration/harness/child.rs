//! The real binary, as a process.

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

/// A command of hookgate, or of the binary that `HOOKGATE_BIN` names, such as an optimised one.
pub fn hookgate(arguments: &[&str]) -> Command {
    let built = || env!("CARGO_BIN_EXE_hookgate").into();
    let mut command = Command::new(env::var_os("HOOKGATE_BIN").unwrap_or_else(built));
    command.args(arguments).env_remove("HOOKGATE_LOG");
    command
}

/// `hookgate serve` on free ports with the `hookgate.yaml` of a folder.
pub fn serve_command(folder: &Path) -> Command {
    let mut command = hookgate(&["serve", "--config", "hookgate.yaml"]);
    command
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .current_dir(folder);
    command
}

/// Runs a command to its end. Returns its exit code, standard output and standard error.
pub fn run(arguments: &[&str], directory: &Path) -> (i32, String, String) {
    let output = hookgate(arguments).current_dir(directory).output().unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs a command whose standard output is closed. Returns its exit code and standard error.
pub fn run_without_reader(arguments: &[&str], directory: &Path) -> (i32, String) {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut command = hookgate(arguments);
    let output = command.current_dir(directory).stdout(writer).output();
    let Output { status, stderr, .. } = output.unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

/// Runs a command with `input` as its standard input, like [`run`].
pub fn run_with_input(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = hookgate(arguments);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let written = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    written.join().unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// A running server process. Killed when dropped.
pub struct ServerProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    /// Variable in the environment of the process and of all its descendants.
    pub mark: String,
}

impl ServerProcess {
    /// Starts the process. Hooks inherit variables whose name begins with `LC_`.
    pub fn start(mut command: Command) -> Self {
        let mark = format!("LC_HOOKGATE_MARK={}", Uuid::new_v4());
        let (name, value) = mark.split_once('=').unwrap();
        let mut child = command
            .env(name, value)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            stderr: Some(stderr),
            mark,
        }
    }

    /// Starts a gateway with the config in a folder: [`serve_command`].
    pub fn folder(folder: &Path) -> Self {
        Self::start(serve_command(folder))
    }

    /// Returns the next line of standard output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the address for agents, which is printed first.
    pub fn addr(&mut self) -> SocketAddr {
        let line = self.line();
        let addr = line.strip_prefix("listening on ").and_then(address);
        let addr = addr.unwrap_or_else(|| panic!("unexpected line {line:?}"));
        addr.parse().unwrap()
    }

    /// Returns the address of the admin listener, which is printed second.
    pub fn operators(&mut self) -> SocketAddr {
        let line = self.line();
        let addr = line.strip_prefix("admin on ").and_then(address);
        addr.unwrap_or_else(|| panic!("unexpected line {line:?}"))
            .parse()
            .unwrap()
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM, which begins the graceful shutdown.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Waits for the end of the process. Returns its exit status and its standard error.
    pub fn ended(mut self, within: Duration) -> (ExitStatus, String) {
        let deadline = Instant::now() + within;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the process does not end");
            thread::sleep(Duration::from_millis(10));
        };
        let stderr = self.stderr.take().unwrap();
        (status, stderr.join().unwrap())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns the part of a URL after its scheme.
fn address(url: &str) -> Option<&str> {
    Some(url.split_once("://")?.1)
}
