//! Process groups: signals and termination of a process with its children.

use std::time::Duration;

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid},
};
use tokio::{process::Child, time::sleep};

/// Interval at which a group is polled for its end: the kernel reports the end of
/// own children only.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A process group; killed when dropped before it is gone.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    /// `None` once it is gone: the id may be reused.
    id: Option<Pid>,
}

impl ProcessGroup {
    /// Returns the group that `leader` leads.
    pub(super) fn new(leader: &Child) -> Self {
        let id = leader.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Self { id }
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // A group that is gone needs no signal.
            kill_process_group(id, signal).ok();
        }
    }

    /// Waits until all processes of the group are gone.
    pub(super) async fn wait(&mut self, leader: &mut Child) {
        // The leader stays in the group until it is reaped.
        leader.wait().await.ok();
        while let Some(id) = self.id {
            if test_kill_process_group(id) == Err(Errno::SRCH) {
                self.id = None;
                return;
            }
            // As first process of a container the gateway inherits orphans.
            if !matches!(waitpgid(id, WaitOptions::NOHANG), Ok(Some(_))) {
                sleep(POLL_INTERVAL).await;
            }
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
