//! The trials: one thing each that a signer has, or has not, to do.

use std::ffi::c_void;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Exit status of a trial that succeeded; not one that a panic gives.
pub(crate) const SUCCEEDED: i32 = 42;
/// Exit status of a trial that was refused with an error.
pub(crate) const REFUSED: i32 = 43;

/// What becomes of a trial inside the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The signer needs it.
    Succeeds,
    /// An error.
    Refused,
    /// The end of the process.
    Killed,
}

pub(crate) const TRIALS: &[(&str, Expected)] = &[
    ("inet", Expected::Killed),
    ("inet6", Expected::Killed),
    ("unix-socket", Expected::Killed),
    ("exec", Expected::Killed),
    ("spawn", Expected::Refused),
    ("ptrace", Expected::Killed),
    ("process-vm-readv", Expected::Killed),
    ("read-passwd", Expected::Refused),
    ("list-root", Expected::Refused),
    ("write-elsewhere", Expected::Refused),
    ("link-elsewhere", Expected::Refused),
    ("device", Expected::Refused),
    ("signal", Expected::Refused),
    ("executable-memory", Expected::Refused),
    ("own-files", Expected::Succeeds),
    ("threads", Expected::Succeeds),
    ("time-and-chance", Expected::Succeeds),
    ("own-thread-steps-back", Expected::Succeeds),
    ("named-process-steps-back", Expected::Refused),
];

/// Ends the process with what came of it.
pub(crate) fn run(trial: &str, directory: &Path) {
    let result = attempt(trial, directory);
    if let Err(error) = &result {
        println!("{trial}: {error}");
    }
    std::process::exit(if result.is_ok() { SUCCEEDED } else { REFUSED });
}

fn attempt(trial: &str, directory: &Path) -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let open = |family| socket(family, SocketType::STREAM, None).map(drop).map_err(io::Error::from);
    match trial {
        "inet" => open(AddressFamily::INET),
        "inet6" => open(AddressFamily::INET6),
        "unix-socket" => open(AddressFamily::UNIX),
        // Ends with the status of a success, as it becomes another program.
        "exec" => Err(Command::new("/bin/sh").args(["-c", &format!("exit {SUCCEEDED}")]).exec()),
        "spawn" => Command::new("/bin/true").status().map(drop),
        "ptrace" => call(libc::SYS_ptrace, [libc::PTRACE_TRACEME.into(), 0, 0, 0, 0, 0]),
        "process-vm-readv" => read_own_memory(),
        "read-passwd" => fs::read("/etc/passwd").map(drop),
        "list-root" => fs::read_dir("/").map(drop),
        "write-elsewhere" => tempfile::NamedTempFile::new_in("/tmp").map(drop),
        "link-elsewhere" => {
            let link = directory.join("link");
            let linked = std::os::unix::fs::symlink("/etc/passwd", &link);
            let _ = fs::remove_file(link);
            linked
        }
        "device" => fs::read("/dev/null").map(drop),
        "signal" => rustix::process::test_kill_process(rustix::process::getpid()).map_err(io::Error::from),
        "executable-memory" => executable_memory(),
        "own-files" => own_files(directory),
        "threads" => std::thread::Builder::new()
            .name("one".to_owned())
            .spawn(|| std::thread::sleep(std::time::Duration::from_millis(1)))
            .map(|thread| thread.join().unwrap()),
        "time-and-chance" => {
            assert!(std::time::SystemTime::now().elapsed().is_ok());
            rustix::rand::getrandom(&mut [0_u8; 8][..], rustix::rand::GetRandomFlags::empty())?;
            Ok(())
        }
        "own-thread-steps-back" => {
            rustix::process::setpriority_process(None, 19)?;
            Ok(())
        }
        // Which could be any other.
        "named-process-steps-back" => {
            let me = rustix::process::getpid();
            rustix::process::setpriority_process(Some(me), 19).map_err(io::Error::from)
        }
        other => panic!("no trial {other}"),
    }
}

/// What `files.rs` of the signer does.
fn own_files(directory: &Path) -> io::Result<()> {
    let (file, new) = (directory.join("file"), directory.join("new"));
    fs::write(&new, b"content")?;
    fs::rename(&new, &file)?;
    fs::File::open(directory)?.sync_all()?;
    let opened = fs::OpenOptions::new().append(true).open(&file)?;
    rustix::fs::flock(&opened, rustix::fs::FlockOperation::LockExclusive)?;
    io::Write::write_all(&mut &opened, b" more")?;
    opened.sync_data()?;
    opened.set_len(3)?;
    assert_eq!(fs::metadata(&file)?.len(), 3);
    assert_eq!(fs::read(&file)?, b"con");
    fs::remove_file(&file)
}

fn read_own_memory() -> io::Result<()> {
    let (from, mut into) = ([7_u8; 8], [0_u8; 8]);
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast::<c_void>(), iov_len: 8 };
    let remote = libc::iovec { iov_base: from.as_ptr().cast_mut().cast::<c_void>(), iov_len: 8 };
    let me = i64::from(rustix::process::getpid().as_raw_pid());
    let address = |iovec: &libc::iovec| i64::try_from(std::ptr::from_ref(iovec).addr()).unwrap();
    call(libc::SYS_process_vm_readv, [me, address(&local), 1, address(&remote), 1, 0])
}

fn executable_memory() -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let mapped = call(libc::SYS_mmap, [0, 4096, protection.into(), flags.into(), -1, 0]);
    mapped.map(drop)
}

#[expect(unsafe_code, reason = "there is no safe way to make a call that must not be made")]
fn call(number: i64, [a, b, c, d, e, f]: [i64; 6]) -> io::Result<()> {
    // SAFETY: the calls are ptrace(TRACEME), process_vm_readv of a buffer of 8 bytes into another, and mmap of a new
    // anonymous page: none of them touches memory that Rust knows, beside that buffer.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
