//! What the kernel says of this process. The files are opened once, before the process shuts itself in: afterwards
//! it can open nothing under `/proc`, and needs nothing there.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, OnceLock};

use rustix::fs::{Dir, Mode, OFlags};

/// Bytes of `/proc/self/stat` that are read: it has 52 numbers and a name of 16 bytes.
const STAT_BYTES_MAX: usize = 2048;

/// The open files. What could not be opened is left out of the page.
#[derive(Debug)]
pub struct Process {
    stat: Option<File>,
    descriptors: Option<Mutex<Dir>>,
}

/// Values of one moment.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Of processor time, user and system together.
    pub(super) cpu_seconds: Option<f64>,
    /// In memory.
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_descriptors: Option<u64>,
    /// The soft limit.
    pub(super) descriptors_max: Option<u64>,
}

impl Process {
    /// Of this process, opened when this is called for the first time: before it shuts itself in.
    pub fn opened() -> Arc<Self> {
        static OPENED: OnceLock<Arc<Process>> = OnceLock::new();
        Arc::clone(OPENED.get_or_init(|| Arc::new(Self::open())))
    }

    /// Opens what there is.
    fn open() -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptors = rustix::fs::open("/proc/self/fd", flags, Mode::empty());
        let descriptors = descriptors.and_then(Dir::new).ok().map(Mutex::new);
        Self { stat: File::open("/proc/self/stat").ok(), descriptors }
    }

    pub(super) fn usage(&self) -> Usage {
        let stat = self.stat.as_ref().and_then(read_stat);
        let (cpu_seconds, resident_bytes) = stat.map_or((None, None), |(cpu, rss)| (Some(cpu), Some(rss)));
        Usage {
            cpu_seconds,
            resident_bytes,
            open_descriptors: self.descriptors.as_ref().and_then(count),
            descriptors_max: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        }
    }
}

/// Processor seconds and resident bytes: fields 14, 15 and 24 of proc(5).
fn read_stat(file: &File) -> Option<(f64, u64)> {
    let mut buffer = vec![0; STAT_BYTES_MAX];
    let len = file.read_at(&mut buffer, 0).ok()?;
    parse_stat(core::str::from_utf8(buffer.get(..len)?).ok()?)
}

fn parse_stat(text: &str) -> Option<(f64, u64)> {
    // The name, field 2, is in parentheses and can hold blanks and parentheses; field 3 follows the last one.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number.checked_sub(3)?)?.parse::<u64>().ok();
    let ticks = field(14)?.checked_add(field(15)?)?;
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    let page = u64::try_from(rustix::param::page_size()).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "2^53 ticks are three million years")]
    Some((ticks as f64 / ticks_per_second as f64, field(24)?.checked_mul(page)?))
}

fn count(descriptors: &Mutex<Dir>) -> Option<u64> {
    let mut directory = descriptors.lock().ok()?;
    directory.rewind();
    let entries = directory.by_ref().flatten().filter(|entry| entry.file_name().to_bytes() != b".");
    let entries = entries.filter(|entry| entry.file_name().to_bytes() != b"..");
    u64::try_from(entries.count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_move_the_fields() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 4 0 1000 99999 7 0 0";
        let (cpu, resident) = parse_stat(&format!("42 (a) (b c) {fields}")).unwrap();
        let second = rustix::param::clock_ticks_per_second() as f64;
        assert!((cpu - 200.0 / second).abs() < f64::EPSILON, "{cpu}");
        assert_eq!(resident, 7 * u64::try_from(rustix::param::page_size()).unwrap());
        assert!(parse_stat("42 (a) S 1").is_none());
    }

    #[test]
    fn open_descriptors_are_counted_anew_each_time() {
        let process = Process::open();
        let before = process.usage();
        let more: Vec<File> = (0..50).map(|_| File::open("/dev/null").unwrap()).collect();
        let after = process.usage();
        // Other tests of this process open and close files of their own.
        assert!(after.open_descriptors.unwrap() >= before.open_descriptors.unwrap() + 25);
        assert!(after.resident_bytes.unwrap() > 1 << 20 && after.cpu_seconds.is_some());
        drop(more);
    }
}
