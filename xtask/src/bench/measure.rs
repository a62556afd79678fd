//! Time, processor time and memory of a program together with every process that it starts, and of processes that
//! run beside it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::error::Error;
use crate::{Result, process};

/// How often the process tree is looked at. `VmHWM` is the kernel's own peak, so a look only has to come before
/// the process ends.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Unit of processor times in `/proc/PID/stat`, in seconds: `USER_HZ` is 100 on every architecture that Linux has.
const TICK: f64 = 0.01;

/// What one run cost.
pub(super) struct Cost {
    pub(super) seconds: f64,
    /// Processor time of all processes, user and system, in seconds.
    pub(super) cpu: f64,
    /// Sum of the peaks of resident memory of all processes, in bytes. Pages that processes share count for
    /// each of them, so the true peak is lower. 0 if nobody looked.
    pub(super) memory: u64,
    pub(super) stdout: String,
}

/// Runs a command to its end and looks at its memory; a failure is an error. Looking takes some processor time: not for
/// runs whose time counts.
pub(super) fn measure(command: &mut Command) -> Result<Cost> {
    run(command, true)
}

/// Runs a command to its end and looks at nothing but the clock; a failure is an error.
pub(super) fn time(command: &mut Command) -> Result<Cost> {
    run(command, false)
}

fn run(command: &mut Command, looks: bool) -> Result<Cost> {
    let cpu = children_cpu();
    let start = Instant::now();
    let mut said = tempfile::tempfile().map_err(Error::file(Path::new("temporary file")))?;
    command.stderr(said.try_clone().map_err(Error::file(Path::new("temporary file")))?);
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|source| process::start(command, source))?;
    let mut stdout = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        if let Some(stdout) = &mut stdout {
            // Not UTF-8 gives an empty text, which the caller does not accept.
            let _ = stdout.read_to_string(&mut text);
        }
        text
    });
    let mut peaks: BTreeMap<u32, u64> = BTreeMap::new();
    let status = loop {
        if !looks {
            break child.wait().map_err(|source| process::start(command, source))?;
        }
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
        let mut text = String::new();
        let _ = said.rewind().and_then(|()| said.read_to_string(&mut text));
        eprintln!("{text}");
        return Err(Error::Command { command: process::line(command) });
    }
    Ok(Cost { seconds, cpu: children_cpu() - cpu, memory: peaks.values().sum(), stdout })
}

/// Processor time of all children that have ended, in seconds.
fn children_cpu() -> f64 {
    let seconds = |time: TimeVal| {
        Duration::new(
            u64::try_from(time.tv_sec()).unwrap_or(0),
            u32::try_from(time.tv_usec()).unwrap_or(0).saturating_mul(1_000),
        )
    };
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| {
        seconds(usage.user_time()).saturating_add(seconds(usage.system_time())).as_secs_f64()
    })
}

/// Processor time of a running process with all its threads, user and system, in seconds.
pub(super) fn cpu(pid: u32) -> f64 {
    ticks(pid, 2)
}

/// The same together with all its children that have ended and were waited for.
pub(super) fn cpu_with_children(pid: u32) -> f64 {
    ticks(pid, 4)
}

/// The first so many of utime, stime, cutime and cstime (proc(5), /proc/PID/stat), together, in seconds.
fn ticks(pid: u32, count: usize) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may hold anything: state is the 3rd field, utime the 14th.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().skip(11).take(count).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
        * TICK
}

/// A process and all that it started.
pub(super) fn tree(pid: u32) -> Vec<u32> {
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
pub(super) fn peak(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The middle of some values; of an even number, the upper of the two in the middle.
pub(super) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value that so large a share of them does not exceed.
pub(super) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut at = sorted.len().saturating_sub(1);
    while at > 0 && super::inputs::float(count(at)) > share * super::inputs::float(count(sorted.len())) {
        at = at.saturating_sub(1);
    }
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

fn count(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_hundred_are_what_they_say() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(median(&values), 51.0);
        assert_eq!(quantile(&values, 0.99), 100.0);
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn processor_time_of_this_process_is_seen() {
        let begun = Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed() < Duration::from_millis(60) {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        assert!(std::hint::black_box(sum) > 0 && cpu(std::process::id()) > 0.0);
    }
}
