//! Finds the steps of the law among the calls of a run.

use std::path::PathBuf;

use nix::libc;
use sha2::{Digest as _, Sha256};

use super::{Effect, Step};
use crate::trace::{Actor, Call};

/// How a temporary's name begins.
const TEMPORARY: &str = ".sealwright-";
/// How an undo record's name begins while it is written, and when it is whole.
const UNDO: [&str; 2] = ["new-", "undo-"];
/// How the name of the file begins that holds space for them.
const UNDO_SPACE: &str = "spare-";

/// Where things lie, known before a run.
#[derive(Clone, Debug)]
pub struct Place {
    /// The value of `SEALWRIGHT_HOME`.
    pub home: PathBuf,
    /// The file that is signed.
    pub source: PathBuf,
    /// The file that holds the signature: the source, or the signature file.
    pub result: PathBuf,
    /// The sealed key, as the store has it.
    pub sealed: Vec<u8>,
}

/// What flows, known after a run.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Where things lie.
    pub place: Place,
    /// Id of the request, 16 bytes.
    pub request_id: Vec<u8>,
    /// The signatures that are in the file now: packets.
    pub packets: Vec<Vec<u8>>,
}

/// What a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// The file that is signed.
    Source,
    /// The signature file.
    SignatureFile,
    /// The temporary.
    Temporary,
    /// The directory of the file.
    Directory,
    /// The store's log of changes.
    StoreLog,
    /// The store itself.
    Store,
    /// An undo record.
    Undo,
    /// Space for undo records.
    UndoSpace,
    /// The directory of undo records.
    UndoDirectory,
    /// The signer's numbers.
    Numbers,
    /// A socket.
    Socket,
    /// Standard output.
    Output,
    /// Anything else.
    Other,
}

impl Place {
    /// What a call is about.
    #[must_use]
    pub fn object(&self, call: &Call) -> Object {
        let path = call.path.as_path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let state = self.home.join("state");
        let is_undo = path.parent() == Some(&state) && UNDO.iter().any(|start| name.starts_with(start));
        // What lies behind a descriptor of the signer is only shown to root.
        let is_for_sockets = ["sendto", "sendmsg", "recvfrom", "recvmsg"].contains(&call.name);
        if is_for_sockets || path.to_string_lossy().starts_with("socket:") {
            Object::Socket
        } else if path == self.source {
            Object::Source
        } else if path == self.result {
            Object::SignatureFile
        } else if path.parent() == self.source.parent() && name.starts_with(TEMPORARY) {
            Object::Temporary
        } else if Some(path) == self.source.parent() {
            Object::Directory
        } else if path == self.home.join("store/store.db-wal") {
            Object::StoreLog
        } else if path == self.home.join("store/store.db") {
            Object::Store
        } else if is_undo {
            Object::Undo
        } else if path.parent() == Some(&state) && name.starts_with(UNDO_SPACE) {
            Object::UndoSpace
        } else if path == state {
            Object::UndoDirectory
        } else if name == "operations" && path.starts_with(&self.home) {
            Object::Numbers
        } else if call.actor == Actor::Front && call.fd == 1 {
            Object::Output
        } else {
            Object::Other
        }
    }
}

/// The steps in the order in which they began; calls of one step that follow each other are one effect.
#[must_use]
pub fn recognise(calls: &[Call], facts: &Facts) -> Vec<Effect> {
    let mut eye = Eye { facts, seen: Vec::new(), unsynced: None, received: Vec::new() };
    let mut effects: Vec<Effect> = Vec::new();
    for (position, call) in calls.iter().enumerate().filter(|(_, call)| call.result >= 0 && call.ended > 0) {
        let Some(step) = eye.step(call, facts.place.object(call)) else { continue };
        match effects.last_mut().filter(|last| last.step == step) {
            Some(last) => last.ended = last.ended.max(call.ended),
            None => effects.push(Effect {
                step,
                actor: call.actor,
                begun: call.begun,
                ended: call.ended,
                call: position,
            }),
        }
        eye.seen.push(step);
    }
    effects
}

struct Eye<'a> {
    facts: &'a Facts,
    seen: Vec<Step>,
    /// What was written to the store's log and is not on the disk yet.
    unsynced: Option<Step>,
    /// What front has read of the answer: it reads in pieces.
    received: Vec<u8>,
}

impl Eye<'_> {
    fn step(&mut self, call: &Call, object: Object) -> Option<Step> {
        match (call.actor, object) {
            (Actor::Front, Object::StoreLog) => self.of_store(call),
            (_, Object::Socket) => self.of_socket(call),
            (Actor::Signer, Object::Numbers) => self.of_numbers(call),
            (Actor::Front, Object::Undo | Object::UndoDirectory) => self.of_undo(call, object),
            (Actor::Front, Object::Output) => {
                let id = hex_id(&self.facts.request_id);
                (call.is_write() && call.has(id.as_bytes())).then_some(Step::Reported)
            }
            (Actor::Front, _) => self.of_files(call, object),
            (Actor::Signer, _) => None,
        }
    }

    fn has(&self, step: Step) -> bool {
        self.seen.contains(&step)
    }

    fn has_packet(&self, call: &Call) -> bool {
        self.facts.packets.iter().any(|packet| call.has(packet))
    }

    fn of_store(&mut self, call: &Call) -> Option<Step> {
        let is_entry = || {
            let logged = |packet: &Vec<u8>| call.has(&Sha256::digest(packet)) || call.has(packet);
            self.facts.packets.iter().any(logged)
        };
        if call.is_sync() {
            let is_entry = self.unsynced.take()? == Step::EntryWritten;
            return Some(if is_entry { Step::EntryDurable } else { Step::IntentDurable });
        }
        let step = if !call.is_write() {
            return None;
        } else if is_entry() {
            Step::EntryWritten
        } else if call.has(&self.facts.request_id) {
            Step::IntentWritten
        } else {
            return None;
        };
        self.unsynced = Some(step);
        Some(step)
    }

    fn of_socket(&mut self, call: &Call) -> Option<Step> {
        match call.actor {
            Actor::Front if call.is_write() && call.has(&self.facts.place.sealed) => Some(Step::SignerAsked),
            Actor::Front if call.is_read() && self.has(Step::SignerAsked) => {
                self.received.extend(&call.data);
                let has =
                    |packet: &Vec<u8>| self.received.windows(packet.len()).any(|window| window == packet);
                (!self.has(Step::AnswerTaken) && self.facts.packets.iter().all(has))
                    .then_some(Step::AnswerTaken)
            }
            Actor::Signer if call.is_write() && self.has_packet(call) => Some(Step::SignerAnswered),
            Actor::Front | Actor::Signer => None,
        }
    }

    /// What it does to its numbers at its start and at its end is no part of a request.
    fn of_numbers(&self, call: &Call) -> Option<Step> {
        if !self.has(Step::SignerAsked) || self.has(Step::Reported) {
            None
        } else if call.is_write() {
            Some(Step::NumbersReserved)
        } else {
            (call.is_sync() && self.has(Step::NumbersReserved)).then_some(Step::NumbersDurable)
        }
    }

    fn of_undo(&self, call: &Call, object: Object) -> Option<Step> {
        match (call.name, object) {
            (_, Object::Undo) if call.is_write() => Some(Step::UndoWritten),
            (_, Object::Undo) if call.is_sync() => Some(Step::UndoDurable),
            (_, Object::UndoDirectory) if call.is_sync() => Some(Step::UndoNameDurable),
            ("renameat" | "renameat2", Object::Undo) => Some(Step::UndoNamed),
            ("unlinkat", Object::Undo) if self.has(Step::SignerAsked) => Some(Step::UndoRemoved),
            _ => None,
        }
    }

    fn of_files(&self, call: &Call, object: Object) -> Option<Step> {
        let place = &self.facts.place;
        let holds_signature = [Object::Source, Object::SignatureFile, Object::Temporary].contains(&object);
        match (call.name, object) {
            ("flock", Object::Source) => (call.flags & libc::LOCK_EX != 0).then_some(Step::Locked),
            ("openat", Object::Temporary) => (call.flags & libc::O_EXCL != 0).then_some(Step::TemporaryMade),
            ("openat", Object::Source) => {
                (call.flags & libc::O_ACCMODE == libc::O_RDWR).then_some(Step::OpenForWriting)
            }
            ("renameat" | "renameat2", Object::Temporary) => {
                (call.to == place.result).then_some(Step::Renamed)
            }
            ("utimensat", Object::Temporary | Object::Source) if self.has(Step::AnswerTaken) => {
                Some(Step::TimesSet)
            }
            (_, Object::Source) if call.is_look_at_name() => {
                let due =
                    self.has(Step::AnswerTaken) && !self.has(Step::Renamed) && !self.has(Step::ReadBack);
                due.then_some(Step::SourceCompared)
            }
            (_, Object::Directory) if call.is_sync() => Some(Step::NameDurable),
            (_, _) if !holds_signature && object != Object::UndoSpace => None,
            _ if call.is_sync() => Some(Step::ContentDurable),
            _ if call.is_write() && self.has_packet(call) => Some(Step::SignatureWritten),
            _ if call.is_read() && self.has_packet(call) => Some(Step::ReadBack),
            (
                "pwrite64" | "write" | "fallocate" | "copy_file_range" | "ioctl",
                Object::Temporary | Object::UndoSpace,
            ) => (!self.has(Step::SignerAsked)).then_some(Step::SpaceTaken),
            _ => None,
        }
    }
}

/// `0198f3ab-...`
fn hex_id(id: &[u8]) -> String {
    let hex: Vec<String> = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, until: usize| hex[from..until].concat();
    [part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 16)].join("-")
}
