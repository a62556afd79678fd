//! What a program reads of a file, by strace.

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
    let log = tempfile::NamedTempFile::new().map_err(Error::file(Path::new("temporary file")))?;
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-qq", "-s", "0", "-e", CALLS, "-o"]).arg(log.path());
    strace.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    process::output(&mut strace)?;
    let text = fs::read_to_string(log.path()).map_err(Error::file(log.path()))?;
    Ok(add_up(&text, &folder.to_string_lossy(), payload_offset))
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
}
