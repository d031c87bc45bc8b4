//! The real binary, as a process.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
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

/// A gateway on free ports, with the `hookgate.yaml` of a folder.
pub fn serving(folder: &Path) -> Command {
    let mut command = hookgate(&["serve", "--config", "hookgate.yaml"]);
    command
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .current_dir(folder);
    command
}

/// Runs a command that ends by itself; gives its exit code and outputs.
pub fn run(arguments: &[&str], directory: &Path) -> (i32, String, String) {
    let output = hookgate(arguments).current_dir(directory).output().unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    let text = |it| String::from_utf8(it).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// The same for a command that reads its standard input.
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
    let text = |it| String::from_utf8(it).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// A command that goes on, in a process. Killed when dropped.
pub struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    /// What it and all that it starts carry in their environment.
    pub mark: String,
}

impl Served {
    /// Starts it. Hooks inherit variables whose name begins with `LC_`.
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

    /// Starts [`serving`].
    pub fn folder(folder: &Path) -> Self {
        Self::start(serving(folder))
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Where it says that it listens.
    pub fn addr(&mut self) -> SocketAddr {
        let line = self.line();
        let addr = line.strip_prefix("listening on ").and_then(address);
        let addr = addr.unwrap_or_else(|| panic!("it says {line:?}"));
        addr.parse().unwrap()
    }

    /// Where it says that operators connect.
    pub fn operators(&mut self) -> SocketAddr {
        let line = self.line();
        let addr = line.strip_prefix("admin on ").and_then(address);
        addr.unwrap_or_else(|| panic!("it says {line:?}"))
            .parse()
            .unwrap()
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it, and waits until it has ended.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Waits for its end; gives how it ended and what it logged.
    pub fn ended(mut self, within: Duration) -> (ExitStatus, String) {
        let deadline = Instant::now() + within;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(10));
        };
        let stderr = self.stderr.take().unwrap();
        (status, stderr.join().unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What follows the scheme of a URL.
fn address(url: &str) -> Option<&str> {
    Some(url.split_once("://")?.1)
}
