//! A real Redis, of which a test may do as it likes.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::PATIENCE;

/// The server, on a free port. Killed when dropped.
pub struct Redis {
    port: u16,
    folder: TempDir,
    child: Child,
    more: Vec<String>,
}

impl Redis {
    /// Starts one that forgets everything when it ends.
    pub fn start() -> Self {
        Self::with(&["--save", ""])
    }

    /// Starts one with these options. What it keeps it finds again when it is
    /// started again.
    pub fn with(options: &[&str]) -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let folder = TempDir::new().unwrap();
        let more: Vec<String> = options.iter().map(|it| (*it).to_owned()).collect();
        Self {
            child: serve(port, &folder, &more),
            port,
            folder,
            more,
        }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, on the same port.
    pub fn start_again(&mut self) {
        self.child = serve(self.port, &self.folder, &self.more);
    }

    /// Lets it hang: connections are accepted, and nothing answers.
    pub fn hang(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a command of words without blanks; the raw answer.
    pub fn ask(&self, command: &str) -> String {
        ask(self.port, command).unwrap()
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(id, signal).unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn serve(port: u16, folder: &TempDir, more: &[String]) -> Child {
    let child = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .arg("--dir")
        .arg(folder.path())
        .args(more)
        .stdout(Stdio::null())
        .spawn();
    let child = child.expect("these tests need `redis-server` (Debian: apt install redis-server)");
    let deadline = Instant::now() + PATIENCE;
    // It answers something, `NOAUTH` and `LOADING` included.
    while ask(port, "PING").is_none_or(|it| it.starts_with("-LOADING")) {
        assert!(Instant::now() < deadline, "redis-server does not answer");
        thread::sleep(Duration::from_millis(10));
    }
    child
}

fn ask(port: u16, command: &str) -> Option<String> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket
        .write_all(format!("{command}\r\nQUIT\r\n").as_bytes())
        .ok()?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}
