//! Processes of the benchmark: start, end, resource usage and CPU affinity.

use std::{
    env, fs,
    fs::File,
    io::{self, BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    process::{
        Pid, Resource, Signal, getpid, getrlimit, kill_process_group,
        set_parent_process_death_signal, setrlimit,
    },
    thread::{CpuSet, sched_setaffinity},
};

use crate::Result;

/// Nanoseconds of a clock tick, the unit in which the kernel reports CPU time.
const NANOS_PER_TICK: u64 = 10_000_000;

/// Limit for the start of an unoptimised process on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// A process and its descendants, which are stopped on drop.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
    /// Lines of its standard output after the first.
    output: Option<Receiver<String>>,
}

impl Process {
    /// Starts a role of this binary from a copy of it.
    pub(crate) fn role(copy: &Path, arguments: &[&str]) -> Result<Self> {
        Self::listening(copy, arguments, Path::new("/dev/null"))
    }

    /// Starts a program that prints its address in its first line. Its stderr goes to
    /// a file, as in production.
    pub(crate) fn listening(program: &Path, arguments: &[&str], log: &Path) -> Result<Self> {
        let mut command = supervised_command(program)?;
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(File::create(log)?);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take();
        let mut process = Self {
            child,
            address: String::new(),
            output: None,
        };
        let stdout = BufReader::new(stdout.ok_or("no stdout")?);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            // Reads to the end, so that the process can always write.
            for line in stdout.lines().map_while(io::Result::ok) {
                sender.send(line).ok();
            }
        });
        // Without a line, the process does not listen.
        let line = receiver.recv_timeout(START_TIMEOUT).unwrap_or_default();
        process.output = Some(receiver);
        let address = line.strip_prefix("listening on http://");
        let log_text = || fs::read_to_string(log).unwrap_or_default();
        let error = || format!("{} does not listen: {}", program.display(), log_text());
        address.ok_or_else(error)?.clone_into(&mut process.address);
        Ok(process)
    }

    /// Starts a program that listens on the given address.
    pub(crate) fn at(address: &str, program: &Path, arguments: &[&str]) -> Result<Self> {
        let child = supervised_command(program)?
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let process = Self {
            child,
            address: address.to_owned(),
            output: None,
        };
        let started = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            if started.elapsed() > START_TIMEOUT {
                return Err(format!("{} does not listen", program.display()).into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(process)
    }

    /// Address of the admin listener, which hookgate prints in its second line.
    pub(crate) fn admin_address(&self) -> Result<String> {
        let output = self.output.as_ref().ok_or("it has no output")?;
        let line = output.recv_timeout(START_TIMEOUT)?;
        let address = line.strip_prefix("admin on http://");
        Ok(address.ok_or("it has no admin listener")?.to_owned())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The process may have ended already.
            kill_process_group(group, signal).ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < STOP_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
        self.signal(Signal::KILL);
        self.child.wait().ok();
    }
}

/// A command in a process group of its own, which ends with the benchmark.
fn supervised_command(program: &Path) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command
        .arg("keep")
        .arg(program)
        .process_group(0)
        .stdin(Stdio::null());
    Ok(command)
}

/// Replaces this process by a program that the kernel terminates when the benchmark ends.
pub(crate) fn exec_until_parent_death(arguments: &[String]) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let [program, arguments @ ..] = arguments else {
        return Err("nothing to start".into());
    };
    Err(Command::new(program).args(arguments).exec().into())
}

/// CPU time of a process and its descendants in nanoseconds, including ended ones.
///
/// Threads report nanoseconds, but only while they run. A process reports the time of
/// ended threads too, but in ticks. The result is the larger of both, plus the time of
/// ended children.
pub(crate) fn cpu(root: u32) -> u64 {
    tree(root).into_iter().filter_map(cpu_of).sum()
}

/// CPU time once it no longer increases.
pub(crate) fn settled_cpu(root: u32) -> u64 {
    let mut last = cpu(root);
    for _ in 0..50 {
        thread::sleep(Duration::from_millis(2));
        let now = cpu(root);
        if now.saturating_sub(last) < 10_000 {
            return now;
        }
        last = now;
    }
    last
}

fn cpu_of(process: u32) -> Option<u64> {
    let ticks = |field: usize| stat(process, field).unwrap_or_default() * NANOS_PER_TICK;
    let threads = fs::read_dir(format!("/proc/{process}/task"))
        .ok()?
        .flatten();
    let threads = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    let threads: u64 = threads.sum();
    Some(threads.max(ticks(14) + ticks(15)) + ticks(16) + ticks(17))
}

/// A field of `/proc/PID/stat` by its number in proc(5), from the fourth on.
fn stat(process: u32, field: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field, a name in parentheses, may contain spaces and parentheses.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(field - 3)?.parse().ok()
}

/// A process and its descendants.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u64)> = processes
        .filter_map(|id| Some((id, stat(id, 4)?)))
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(
            parents
                .iter()
                .filter(|process| process.1 == u64::from(parent))
                .map(|process| process.0),
        );
        at += 1;
    }
    found
}

/// Resident memory of a process and its descendants, in KiB.
pub(crate) fn memory(root: u32) -> u64 {
    let rss_kib = |process| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    tree(root).into_iter().filter_map(rss_kib).sum()
}

/// Raises the limit of open files to its maximum, for this process and its children.
pub(crate) fn open_many_files() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// CPU cores on which processes may run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    One,
    All,
}

/// Restricts this process and the trees of others to some cores.
pub(crate) fn pin(roots: &[u32], cores: Cores) -> Result<()> {
    let mut set = CpuSet::new();
    let count = match cores {
        Cores::One => 1,
        Cores::All => CpuSet::MAX_CPU,
    };
    for core in 0..count {
        set.set(core);
    }
    let this = u32::try_from(getpid().as_raw_nonzero().get())?;
    let processes = roots.iter().flat_map(|root| tree(*root)).chain([this]);
    for process in processes {
        let threads = fs::read_dir(format!("/proc/{process}/task"))?.flatten();
        for thread in threads {
            let id = thread
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            // The thread may have ended.
            sched_setaffinity(id.and_then(Pid::from_raw), &set).ok();
        }
    }
    Ok(())
}
