//! Instruction counts of the hot functions: `just instructions`.
//!
//! Runs each case in its own process under valgrind's callgrind and fails if one
//! exceeds its limit; `just instructions renew` writes new limits. Unlike time, the
//! count hardly differs from run to run, even on a busy machine.
//!
//! An optimised and an unoptimised build have limits of their own. CI counts in the
//! unoptimised one, which the tests have built already.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod cases;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    process::{Command, Output},
    thread,
};

use self::cases::CASES;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Each line is a case and its maximum number of instructions in this kind of build.
const LIMITS: &str = if cfg!(debug_assertions) {
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/benches/instructions/limits_unoptimised.txt"
    )
} else {
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/benches/instructions/limits.txt"
    )
};

/// Headroom of a new limit, in percent. Unrelated changes alter the instructions that the
/// compiler generates for a function by up to 5 %.
const LIMIT_HEADROOM_PERCENT: u64 = 10;

/// Command of the process under valgrind: `count CASE`.
const COUNT: &str = "count";

fn main() -> Outcome {
    // `cargo bench` adds `--bench`.
    let words = env::args().skip(1).filter(|word| word != "--bench");
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words {
        [] => check(&counts()?, &limits()?),
        ["renew"] => {
            let counts = counts()?;
            renew(&counts)?;
            check(&counts, &limits()?)
        }
        [COUNT, name] => {
            let found = CASES.iter().find(|case| case.0 == name);
            let (_, case) = found.ok_or("no such case")?;
            case()
        }
        _ => Err("the only argument is `renew`".into()),
    }
}

/// The instructions of each case.
fn counts() -> Outcome<Vec<(&'static str, u64)>> {
    thread::scope(|scope| {
        let start = |&(name, _)| (name, scope.spawn(move || count(name)));
        let started: Vec<_> = CASES.iter().map(start).collect();
        let end = |(name, thread): (_, thread::ScopedJoinHandle<'_, Outcome<u64>>)| {
            let count = thread.join().map_err(|_| "a thread panicked")?;
            Ok((name, count.map_err(|error| format!("{name}: {error}"))?))
        };
        started.into_iter().map(end).collect()
    })
}

/// Runs a case under valgrind, which counts while [`cases::measured`] runs.
fn count(name: &str) -> Outcome<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*measured*")
        .arg(env::current_exe()?)
        .args([COUNT, name])
        .output();
    let output = output.map_err(|error| format!("valgrind must be installed: {error}"))?;
    let Output { status, stderr, .. } = output;
    let text = String::from_utf8_lossy(&stderr);
    let total = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    match total.map(|(_, count)| count.trim().parse()) {
        Some(Ok(total)) if status.success() && total > 0 => Ok(total),
        _ => Err(format!("nothing was counted, {status}:\n{text}").into()),
    }
}

fn renew(counts: &[(&str, u64)]) -> Outcome {
    let mut lines = String::new();
    for (name, count) in counts {
        writeln!(
            lines,
            "{name} {}",
            count + count * LIMIT_HEADROOM_PERCENT / 100
        )?;
    }
    Ok(fs::write(LIMITS, lines)?)
}

fn limits() -> Outcome<BTreeMap<String, u64>> {
    let text = fs::read_to_string(LIMITS)?;
    let read = |line: &str| {
        let (name, limit) = line.split_once(' ')?;
        Some((name.to_owned(), limit.parse().ok()?))
    };
    let limits: Option<_> = text.lines().map(read).collect();
    Ok(limits.ok_or("a line of limits is not `name limit`")?)
}

fn check(counts: &[(&str, u64)], limits: &BTreeMap<String, u64>) -> Outcome {
    let mut over = Vec::new();
    println!("{:<20}{:>13}{:>13}", "", "instructions", "at most");
    for (name, count) in counts {
        let limit = *limits
            .get(*name)
            .ok_or_else(|| format!("{name} has no limit"))?;
        println!("{name:<20}{count:>13}{limit:>13}");
        if *count > limit {
            over.push(*name);
        }
    }
    if limits.len() > counts.len() {
        return Err("limits without a case".into());
    }
    if !limits_apply() {
        println!("not compared: the limits are those of another kind of processor");
        return Ok(());
    }
    match &*over {
        [] => Ok(()),
        over => Err(format!("too many instructions: {}", over.join(", ")).into()),
    }
}

/// Returns true if the limits apply to this processor. Some libraries have other code for
/// other processors; valgrind emulates all those with AVX2 alike.
#[cfg(target_arch = "x86_64")]
fn limits_apply() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
const fn limits_apply() -> bool {
    false
}
