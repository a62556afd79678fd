//! What a program reads of a file, and which calls it makes, by strace.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::{Result, process};

/// System calls by which bytes of a file reach a process, or are moved by the kernel for it.
const CALLS: &str =
    "trace=read,pread64,readv,preadv,preadv2,lseek,mmap,copy_file_range,sendfile,splice,ioctl";

/// Bytes of the package (and of the temporary files beside it) by how they were got.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// Read into the program, before the payload.
    pub(super) headers: u64,
    /// Read into the program, of the payload.
    pub(super) payload: u64,
    /// Copied by the kernel from file to file; the program does not see them.
    pub(super) by_kernel: u64,
    /// Extents shared instead of copied (reflink).
    pub(super) clones: u64,
    /// The file mapped into memory: reads that strace cannot count.
    pub(super) maps: u64,
}

/// Runs a command under strace and adds up what it read of files in `folder`, whose payload starts at
/// `payload_offset`.
pub(super) fn reads(command: &Command, folder: &Path, payload_offset: u64) -> Result<Reads> {
    let text = traced(command, &["-y", "-s", "0", "-e", CALLS])?;
    Ok(add_up(&text, &folder.to_string_lossy(), payload_offset))
}

/// How often a program with all its threads and children made calls of some kinds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    /// Locks and other waiting of threads for each other.
    pub(super) futex: u64,
    /// `fsync`, `fdatasync`: of one file.
    pub(super) syncs_of_files: u64,
    /// `syncfs`: of all that is dirty on a file system.
    pub(super) syncs_of_systems: u64,
    /// Bytes into TCP connections, TLS and all.
    pub(super) sent: u64,
    /// Bytes out of them.
    pub(super) received: u64,
    /// TCP connections that were begun.
    pub(super) connects: u64,
}

/// Runs a command under strace and counts.
pub(super) fn calls(command: &Command) -> Result<Calls> {
    const TRACED: &str =
        "trace=futex,fsync,fdatasync,syncfs,connect,read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg";
    traced(command, &["-yy", "-s", "0", "-e", TRACED]).map(|text| count_calls(&text))
}

/// Counts from a log that another strace wrote, attached to a process.
pub(super) fn count_calls(log: &str) -> Calls {
    let mut sum = Calls::default();
    for line in joined(log) {
        let Some((call, rest)) = line.split_once('(') else { continue };
        let result = rest.rsplit_once(" = ").and_then(|(_, result)| result.split_whitespace().next());
        let bytes = result.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let is_tcp = rest.split(',').next().unwrap_or_default().contains("<TCP");
        let add = |counter: &mut u64, more: u64| *counter = counter.saturating_add(more);
        match call {
            "futex" => add(&mut sum.futex, 1),
            "fsync" | "fdatasync" => add(&mut sum.syncs_of_files, 1),
            "syncfs" => add(&mut sum.syncs_of_systems, 1),
            "connect" if is_tcp => add(&mut sum.connects, 1),
            "read" | "readv" | "recvfrom" | "recvmsg" if is_tcp => add(&mut sum.received, bytes),
            "write" | "writev" | "sendto" | "sendmsg" if is_tcp => add(&mut sum.sent, bytes),
            _ => {}
        }
    }
    sum
}

/// Waits that ended because their time was over, from the first byte that came in over TCP to the last that went out.
pub(super) fn timeouts(log: &str) -> u64 {
    let lines = joined(log);
    let over_tcp = |line: &String, calls: &[&str]| {
        let call = line.split('(').next().unwrap_or_default();
        calls.contains(&call) && line.split(',').next().unwrap_or_default().contains("<TCP")
    };
    let first =
        lines.iter().position(|line| over_tcp(line, &["recvfrom", "read", "readv"])).unwrap_or(lines.len());
    let last = lines.iter().rposition(|line| over_tcp(line, &["sendto", "write", "writev"])).unwrap_or(0);
    let between = lines.get(first..last.max(first)).unwrap_or_default();
    let is_timeout = |line: &&String| {
        let is_wait = line.starts_with("epoll_") || line.starts_with("poll") || line.starts_with("ppoll");
        // A look without a wait has the timeout 0.
        let looks = line.contains(", 0, NULL") || line.contains(", 0) =");
        let ended = line.ends_with("= 0") || line.ends_with("= 0 (Timeout)");
        let slept = line.starts_with("nanosleep") || line.starts_with("clock_nanosleep");
        (is_wait && ended && !looks) || slept || line.contains("ETIMEDOUT")
    };
    u64::try_from(between.iter().filter(is_timeout).count()).unwrap_or(u64::MAX)
}

/// Runs a command under strace with these options and returns the log.
fn traced(command: &Command, options: &[&str]) -> Result<String> {
    let log = tempfile::NamedTempFile::new().map_err(Error::file(Path::new("temporary file")))?;
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq"]).args(options).arg("-o").arg(log.path());
    strace.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    process::output(&mut strace)?;
    fs::read_to_string(log.path()).map_err(Error::file(log.path()))
}

fn add_up(log: &str, folder: &str, payload_offset: u64) -> Reads {
    let mut sum = Reads::default();
    let mut positions: BTreeMap<String, u64> = BTreeMap::new();
    for line in joined(log) {
        let Some((call, rest)) = line.split_once('(') else { continue };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { continue };
        let Some(result) = result.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()) else {
            // mmap answers an address; only the fact counts.
            if call.ends_with("mmap") && arguments.contains(folder) {
                sum.maps = sum.maps.saturating_add(1);
            }
            continue;
        };
        if !arguments.contains(folder) {
            continue;
        }
        let file = arguments.split(',').next().unwrap_or_default().to_owned();
        match call {
            "read" | "readv" => {
                let at = positions.entry(file).or_default();
                count(&mut sum, *at, result, payload_offset);
                *at = at.saturating_add(result);
            }
            "pread64" | "preadv" | "preadv2" => {
                let at = last_number(arguments, usize::from(call == "preadv2"));
                count(&mut sum, at, result, payload_offset);
            }
            "lseek" => {
                positions.insert(file, result);
            }
            "ioctl" if arguments.contains("FICLONE") => sum.clones = sum.clones.saturating_add(1),
            "copy_file_range" | "sendfile" | "splice" => sum.by_kernel = sum.by_kernel.saturating_add(result),
            _ => {}
        }
    }
    sum
}

fn count(sum: &mut Reads, at: u64, length: u64, payload_offset: u64) {
    let before = payload_offset.saturating_sub(at).min(length);
    sum.headers = sum.headers.saturating_add(before);
    sum.payload = sum.payload.saturating_add(length.saturating_sub(before));
}

/// The last argument, or one further from the end.
fn last_number(arguments: &str, from_end: usize) -> u64 {
    let last = arguments.rsplit(',').nth(from_end).unwrap_or_default();
    last.trim().trim_end_matches(')').parse().unwrap_or(0)
}

/// Lines without process ids, with calls that were interrupted by another thread put together again.
fn joined(log: &str) -> Vec<String> {
    let mut pending: BTreeMap<&str, String> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in log.lines() {
        let Some((pid, text)) = line.split_once(' ') else { continue };
        let text = text.trim_start();
        if let Some(start) = text.strip_suffix(" <unfinished ...>") {
            pending.insert(pid, start.to_owned());
        } else if let Some((_, end)) =
            text.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"))
        {
            let start = pending.remove(pid).unwrap_or_default();
            lines.push(format!("{start}{end}"));
        } else {
            lines.push(text.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_told_apart_by_offset_and_kind() {
        let log = "1 read(5</b/a.rpm>, \"\"..., 100) = 100\n\
                   1 read(5</b/a.rpm>, \"\"..., 100) = 50\n\
                   2 pread64(6</b/a.rpm>, \"\"..., 40, 110) = 40\n\
                   1 pread64(6</b/a.rpm>,  <unfinished ...>\n\
                   2 lseek(5</b/a.rpm>, 0, SEEK_SET) = 0\n\
                   1 <... pread64 resumed>\"\"..., 10, 0) = 10\n\
                   1 read(5</b/a.rpm>, \"\"..., 1) = 1\n\
                   1 copy_file_range(5</b/a.rpm>, [0], 7</b/.t>, [0], 9, 0) = 9\n\
                   1 ioctl(7</b/.t>, BTRFS_IOC_CLONE or FICLONE, 5</b/a.rpm>) = 0\n\
                   1 mmap(NULL, 5, PROT_READ, MAP_PRIVATE, 5</b/a.rpm>, 0) = 0x7f00\n\
                   1 read(9</etc/passwd>, \"\"..., 7) = 7\n";
        let sum = add_up(log, "/b", 120);
        assert_eq!(
            sum,
            Reads { headers: 120 + 10 + 10 + 1, payload: 30 + 30, by_kernel: 9, clones: 1, maps: 1 }
        );
    }

    #[test]
    fn calls_are_counted_by_kind_and_bytes_only_of_tcp() {
        let log = "7 futex(0x1, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>\n\
                   8 fsync(5</b/a.rpm>) = 0\n\
                   7 <... futex resumed>) = 0\n\
                   8 fdatasync(5</b/a.rpm>) = 0\n\
                   8 syncfs(5</b/a.rpm>) = 0\n\
                   7 connect(9<TCP:[77]>, {sa_family=AF_INET}, 16) = -1 EINPROGRESS (now in progress)\n\
                   7 sendto(9<TCP:[127.0.0.1:4->127.0.0.1:5]>, \"\"..., 99, MSG_NOSIGNAL, NULL, 0) = 99\n\
                   7 recvfrom(9<TCP:[127.0.0.1:4->127.0.0.1:5]>, 0x1, 99, 0, NULL, NULL) = -1 EAGAIN (again)\n\
                   7 recvfrom(9<TCP:[127.0.0.1:4->127.0.0.1:5]>, \"\"..., 99, 0, NULL, NULL) = 11\n\
                   7 write(1</dev/null>, \"\"..., 5) = 5\n";
        let wanted =
            Calls { futex: 1, syncs_of_files: 2, syncs_of_systems: 1, sent: 99, received: 11, connects: 1 };
        assert_eq!(count_calls(log), wanted);
    }

    #[test]
    fn only_waits_within_a_request_that_ran_out_count() {
        let log = "1 epoll_wait(3<anon>, [], 1024, 50) = 0\n\
                   1 recvfrom(9<TCP:[a->b]>, \"\"..., 99, 0, NULL, NULL) = 11\n\
                   1 epoll_wait(3<anon>, [], 1024, 0) = 0\n\
                   1 epoll_wait(3<anon>, [], 1024, 7) = 0\n\
                   1 epoll_wait(3<anon>, [{EPOLLIN}], 1024, 7) = 1\n\
                   2 futex(0x1, FUTEX_WAIT_BITSET_PRIVATE, 0, {tv_sec=1}) = -1 ETIMEDOUT (Connection timed out)\n\
                   1 sendto(9<TCP:[a->b]>, \"\"..., 99, MSG_NOSIGNAL, NULL, 0) = 99\n\
                   1 epoll_wait(3<anon>, [], 1024, 50) = 0\n";
        assert_eq!(timeouts(log), 2);
    }
}
