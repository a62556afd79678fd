//! Time and memory of a program together with every process that it starts.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::{Result, process};

/// How often the process tree is looked at. `VmHWM` is the kernel's own peak, so a look only has to come before
/// the process ends.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What one run cost.
pub(super) struct Cost {
    pub(super) seconds: f64,
    /// Sum of the peaks of resident memory of all processes, in bytes. Pages that processes share count for
    /// each of them, so the true peak is lower.
    pub(super) memory: u64,
    pub(super) stdout: String,
}

/// Runs a command to its end; a failure is an error.
pub(super) fn measure(command: &mut Command) -> Result<Cost> {
    let start = Instant::now();
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|source| process::start(command, source))?;
    let mut stdout = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        if let Some(stdout) = &mut stdout {
            // Not UTF-8 gives an empty text, which the caller does not accept.
            let _ = std::io::Read::read_to_string(stdout, &mut text);
        }
        text
    });
    let mut peaks: BTreeMap<u32, u64> = BTreeMap::new();
    let status = loop {
        for pid in tree(child.id()) {
            if let Some(peak) = peak(pid) {
                peaks.entry(pid).and_modify(|old| *old = peak.max(*old)).or_insert(peak);
            }
        }
        if let Some(status) = child.try_wait().map_err(|source| process::start(command, source))? {
            break status;
        }
        thread::sleep(LOOK_EVERY);
    };
    let seconds = start.elapsed().as_secs_f64();
    let stdout = reader.join().unwrap_or_default();
    if !status.success() {
        return Err(Error::Command { command: process::line(command) });
    }
    Ok(Cost { seconds, memory: peaks.values().sum(), stdout })
}

/// A process and all that it started.
fn tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
            found.extend(tree(child));
        }
    }
    found
}

/// Peak of resident memory of a process, in bytes.
fn peak(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    kib.checked_mul(1024)
}
