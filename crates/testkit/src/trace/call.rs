//! One system call: what it is about, and the bytes that went through it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::Pid;

use super::registers::Registers;

/// Bytes of one call that are kept at most.
const DATA_BYTES_MAX: usize = 4 << 20;
/// Parts of one vectored call at most (Linux `IOV_MAX`).
const PARTS_MAX: u64 = 1024;
/// Longest path in bytes (Linux `PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;

/// Which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The one that was started: client and front.
    Front,
    /// Its child.
    Signer,
}

/// One system call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who made it.
    pub actor: Actor,
    /// Its name.
    pub name: &'static str,
    /// What it is about: the path behind the descriptor, or the path given; `socket:[...]` for a socket.
    pub path: PathBuf,
    /// The second path of a rename.
    pub to: PathBuf,
    /// The descriptor; -1 where a path was given.
    pub fd: i32,
    /// Flags of `openat`, the operation of `flock`; else 0.
    pub flags: i32,
    /// Bytes written, or read.
    pub data: Vec<u8>,
    /// Position in time at which it began and at which it was over.
    pub begun: usize,
    /// See `begun`; 0 if it was never over.
    pub ended: usize,
    /// What the kernel returned: a negative error number for a failure.
    pub result: i64,
}

impl Call {
    /// Whether these bytes went through it.
    #[must_use]
    pub fn has(&self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && self.data.windows(bytes.len()).any(|window| window == bytes)
    }

    /// Whether it gives bytes to the kernel.
    #[must_use]
    pub fn is_write(&self) -> bool {
        ["write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg"].contains(&self.name)
    }

    /// Whether it takes bytes from the kernel.
    #[must_use]
    pub fn is_read(&self) -> bool {
        ["read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg"].contains(&self.name)
    }

    /// Whether it waits for the disk.
    #[must_use]
    pub fn is_sync(&self) -> bool {
        ["fsync", "fdatasync"].contains(&self.name)
    }

    /// Whether it asks what a name stands for.
    #[must_use]
    pub fn is_look_at_name(&self) -> bool {
        ["newfstatat", "statx"].contains(&self.name) && self.fd < 0
    }
}

/// Where its arguments are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A descriptor first.
    Descriptor,
    /// Descriptor, buffer, length.
    Write,
    Read,
    /// Descriptor, vector, count.
    WriteParts,
    ReadParts,
    /// Descriptor, message.
    Send,
    Receive,
    /// Directory, name.
    Name,
    /// Directory, name, directory, name.
    Names,
    /// The descriptor that is written to is the third.
    Copy,
}

impl Shape {
    pub(super) const fn has_name(self) -> bool {
        matches!(self, Self::Name | Self::Names)
    }
}

/// Every call that can be an effect. All others pass unseen.
const CALLS: &[(i64, &str, Shape)] = &[
    (libc::SYS_flock, "flock", Shape::Descriptor),
    (libc::SYS_fallocate, "fallocate", Shape::Descriptor),
    (libc::SYS_ftruncate, "ftruncate", Shape::Descriptor),
    (libc::SYS_fsync, "fsync", Shape::Descriptor),
    (libc::SYS_fdatasync, "fdatasync", Shape::Descriptor),
    (libc::SYS_fchmod, "fchmod", Shape::Descriptor),
    (libc::SYS_ioctl, "ioctl", Shape::Descriptor),
    (libc::SYS_copy_file_range, "copy_file_range", Shape::Copy),
    (libc::SYS_write, "write", Shape::Write),
    (libc::SYS_pwrite64, "pwrite64", Shape::Write),
    (libc::SYS_sendto, "sendto", Shape::Write),
    (libc::SYS_read, "read", Shape::Read),
    (libc::SYS_pread64, "pread64", Shape::Read),
    (libc::SYS_recvfrom, "recvfrom", Shape::Read),
    (libc::SYS_writev, "writev", Shape::WriteParts),
    (libc::SYS_pwritev, "pwritev", Shape::WriteParts),
    (libc::SYS_pwritev2, "pwritev2", Shape::WriteParts),
    (libc::SYS_readv, "readv", Shape::ReadParts),
    (libc::SYS_preadv, "preadv", Shape::ReadParts),
    (libc::SYS_preadv2, "preadv2", Shape::ReadParts),
    (libc::SYS_sendmsg, "sendmsg", Shape::Send),
    (libc::SYS_recvmsg, "recvmsg", Shape::Receive),
    (libc::SYS_openat, "openat", Shape::Name),
    (libc::SYS_newfstatat, "newfstatat", Shape::Name),
    (libc::SYS_statx, "statx", Shape::Name),
    (libc::SYS_unlinkat, "unlinkat", Shape::Name),
    (libc::SYS_utimensat, "utimensat", Shape::Name),
    (libc::SYS_renameat, "renameat", Shape::Names),
    (libc::SYS_renameat2, "renameat2", Shape::Names),
    (libc::SYS_linkat, "linkat", Shape::Names),
];

/// One process: its memory, and what its descriptors were opened as.
pub(super) struct Process {
    pub(super) actor: Actor,
    /// Opened early: a process that forbids dumps cannot be opened later, but still be read.
    memory: Option<File>,
    opened: HashMap<i32, PathBuf>,
}

/// A call that began: what is known before the kernel does it.
pub(super) struct Begun {
    pub(super) call: Call,
    pub(super) registers: Registers,
    pub(super) shape: Shape,
}

impl Process {
    pub(super) fn new(actor: Actor, pid: Pid) -> Self {
        let memory = File::open(format!("/proc/{pid}/mem")).ok();
        Self { actor, memory, opened: HashMap::new() }
    }

    /// `None` for a call that is no effect.
    pub(super) fn begin(&self, tid: Pid, registers: Registers, now: usize) -> Option<Begun> {
        let (_, name, shape) = CALLS.iter().find(|(number, ..)| *number == registers.number())?;
        let arguments = registers.arguments();
        let mut call = Call {
            actor: self.actor,
            name,
            path: PathBuf::new(),
            to: PathBuf::new(),
            fd: -1,
            flags: 0,
            data: Vec::new(),
            begun: now,
            ended: 0,
            result: 0,
        };
        let given = if shape.has_name() { self.text(arguments[1]) } else { PathBuf::new() };
        if given.as_os_str().is_empty() {
            call.fd = low(arguments[if *shape == Shape::Copy { 2 } else { 0 }]);
            call.path = self.path_of(tid, call.fd);
        } else {
            call.path = self.path_of(tid, low(arguments[0])).join(given);
        }
        if *shape == Shape::Names {
            call.to = self.path_of(tid, low(arguments[2])).join(self.text(arguments[3]));
        }
        call.flags = match *name {
            "openat" => low(arguments[2]),
            "flock" => low(arguments[1]),
            _ => 0,
        };
        call.data = match shape {
            Shape::Write => self.bytes(arguments[1], arguments[2]),
            Shape::WriteParts => self.parts(arguments[1], arguments[2], usize::MAX),
            Shape::Send => self.message(arguments[1], usize::MAX),
            Shape::Descriptor
            | Shape::Read
            | Shape::ReadParts
            | Shape::Receive
            | Shape::Name
            | Shape::Names
            | Shape::Copy => Vec::new(),
        };
        Some(Begun { call, registers, shape: *shape })
    }

    /// Completes it with what the kernel returned.
    pub(super) fn end(&mut self, begun: Begun, result: i64, now: usize) -> Call {
        let Begun { mut call, registers, shape } = begun;
        (call.result, call.ended) = (result, now);
        let arguments = registers.arguments();
        if let Ok(got) = u64::try_from(result) {
            let most = usize::try_from(got).unwrap_or(usize::MAX);
            if shape == Shape::Read {
                call.data = self.bytes(arguments[1], got);
            } else if shape == Shape::ReadParts {
                call.data = self.parts(arguments[1], arguments[2], most);
            } else if shape == Shape::Receive {
                call.data = self.message(arguments[1], most);
            }
            if call.name == "openat" {
                self.opened.insert(low(got), call.path.clone());
            }
        }
        call
    }

    fn path_of(&self, tid: Pid, fd: i32) -> PathBuf {
        let link = match fd {
            libc::AT_FDCWD => format!("/proc/{tid}/cwd"),
            fd => format!("/proc/{tid}/fd/{fd}"),
        };
        // The descriptors of a process that forbids dumps are only shown to root.
        std::fs::read_link(link).unwrap_or_else(|_| self.opened.get(&fd).cloned().unwrap_or_default())
    }

    fn bytes(&self, address: u64, length: u64) -> Vec<u8> {
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(DATA_BYTES_MAX);
        let mut bytes = vec![0; length];
        match &self.memory {
            Some(memory) if memory.read_exact_at(&mut bytes, address).is_ok() => bytes,
            Some(_) | None => Vec::new(),
        }
    }

    fn text(&self, address: u64) -> PathBuf {
        let mut bytes = vec![0; PATH_BYTES_MAX];
        let read = self.memory.as_ref().and_then(|memory| memory.read_at(&mut bytes, address).ok());
        bytes.truncate(read.unwrap_or(0));
        bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(0));
        Path::new(&OsString::from_vec(bytes)).to_owned()
    }

    /// A vector of addresses and lengths.
    fn parts(&self, address: u64, count: u64, most: usize) -> Vec<u8> {
        let vector = self.bytes(address, count.min(PARTS_MAX) * 16);
        let mut data = Vec::new();
        for part in vector.chunks_exact(16) {
            data.extend(self.bytes(word(part, 0), word(part, 8)));
        }
        data.truncate(most);
        data
    }

    /// A `msghdr`: its vector and count are the third and fourth words.
    fn message(&self, address: u64, most: usize) -> Vec<u8> {
        let header = self.bytes(address, 32);
        if header.is_empty() { header } else { self.parts(word(&header, 16), word(&header, 24), most) }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Descriptors and flags are the low half of a register.
fn low(register: u64) -> i32 {
    let [a, b, c, d, ..] = register.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}
