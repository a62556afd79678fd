//! The file of counts: lines that are only ever appended, until a signer that is alone writes it anew, shorter. A
//! line that a crash cut short was never relied on, and is cut off.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sealwright_crypto::digest::to_hex;
use sealwright_proto::names::KeyId;

use super::OPERATIONS_FILE;
use crate::error::Error;
use crate::files;
use crate::root::{from_hex, missing};

/// The first line.
pub(super) const TITLE: &str = "sealwright-operations 1\n";
/// Bytes of the file, at most: some 500,000 keys.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// From here on a signer that is alone writes it anew.
const LONG_BYTES: u64 = 64 << 10;

/// What the file says, as far as it was read. Whoever calls holds the lock.
pub(super) struct Ledger {
    directory: PathBuf,
    file: File,
    read_bytes: u64,
    states: BTreeMap<KeyId, State>,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// The first number that is free.
    pub(super) next: u64,
    /// Numbers that were reserved and have been declared, so far: given up unused, or lost with a signer.
    pub(super) skipped: u64,
    /// End of the chain.
    pub(super) chain: [u8; 32],
    /// Blocks in hand, or lost and not declared: first and last number.
    open: Vec<(u64, u64)>,
}

impl Default for State {
    fn default() -> Self {
        Self { next: 1, skipped: 0, chain: [0; 32], open: Vec::new() }
    }
}

/// One line.
#[derive(Clone, Copy)]
pub(super) enum Line {
    /// `KEY at NEXT SKIPPED CHAIN`: all that was before, in short.
    At { key_id: KeyId, next: u64, skipped: u64, chain: [u8; 32] },
    /// `KEY reserve FIRST LAST CHAIN`
    Reserve { key_id: KeyId, first: u64, last: u64, chain: [u8; 32] },
    /// `KEY end FIRST USED CHAIN`: of that block these were used; the rest is free again, or skipped if another block
    /// follows.
    End { key_id: KeyId, first: u64, used: u64, chain: [u8; 32] },
    /// `KEY lost FIRST LAST`: its signer was killed; some may have been used.
    Lost { key_id: KeyId, first: u64, last: u64 },
}

impl Ledger {
    pub(super) fn open(directory: &Path) -> Result<Self, Error> {
        let mut ledger = Self {
            directory: directory.to_owned(),
            file: open(directory)?,
            read_bytes: 0,
            states: BTreeMap::new(),
        };
        ledger.refresh()?;
        Ok(ledger)
    }

    /// Whether there is a key in it.
    pub(super) fn has_any(&self) -> bool {
        !self.states.is_empty()
    }

    /// What the key's count stands at.
    pub(super) fn state(&self, key_id: KeyId) -> State {
        self.states.get(&key_id).cloned().unwrap_or_default()
    }

    /// Reads what others have appended.
    pub(super) fn refresh(&mut self) -> Result<(), Error> {
        let path = self.path();
        let there = std::fs::metadata(&path).map_err(files::failed("look at", &path))?;
        let ours = self.file.metadata().map_err(files::failed("look at", &path))?;
        if there.ino() != ours.ino() || there.len() < self.read_bytes {
            return Err(self.damaged("it was exchanged or cut while signers run"));
        }
        if there.len() > FILE_BYTES_MAX {
            return Err(self.damaged("it is too large"));
        }
        if there.len() == self.read_bytes {
            return Ok(());
        }
        let mut added = Vec::new();
        self.file
            .seek(SeekFrom::Start(self.read_bytes))
            .and_then(|_| self.file.read_to_end(&mut added))
            .map_err(files::failed("read", &path))?;
        let whole = added.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last.saturating_add(1));
        self.take(added.get(..whole).unwrap_or_default())?;
        if whole < added.len() {
            self.file.set_len(self.read_bytes).map_err(files::failed("cut", &path))?;
        }
        Ok(())
    }

    fn take(&mut self, mut added: &[u8]) -> Result<(), Error> {
        let bytes = u64::try_from(added.len()).unwrap_or(u64::MAX);
        if self.read_bytes == 0 {
            added = added
                .strip_prefix(TITLE.as_bytes())
                .ok_or_else(|| self.damaged("it is not a list of operations"))?;
        }
        let text = core::str::from_utf8(added).map_err(|_| self.damaged("it is not a list of operations"))?;
        for line in text.split_terminator('\n') {
            let applied = Line::parse(line).and_then(|line| self.apply(line));
            applied.ok_or_else(|| self.damaged("a line of it does not follow from those before"))?;
        }
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        Ok(())
    }

    /// Not durable before [`Self::sync`].
    pub(super) fn append(&mut self, lines: &[Line]) -> Result<(), Error> {
        let text: String = lines.iter().map(Line::write).collect();
        let written = self.file.seek(SeekFrom::Start(self.read_bytes));
        let written = written.and_then(|_| self.file.write_all(text.as_bytes()));
        if let Err(error) = written {
            // A line in part would stay in the way of the next: whoever reads next cuts it off, too.
            let _ = self.file.set_len(self.read_bytes);
            return Err(files::failed("write", &self.path())(error));
        }
        self.take(text.as_bytes())
    }

    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(files::failed("sync", &self.path()))
    }

    /// Closes all open blocks. Only while no other signer lives.
    pub(super) fn declare_lost(&mut self) -> Result<(), Error> {
        let lost = self.states.iter().flat_map(|(key_id, state)| {
            let lost = state.open.iter();
            lost.map(|(first, last)| Line::Lost { key_id: *key_id, first: *first, last: *last })
        });
        let lost: Vec<_> = lost.collect();
        if lost.is_empty() {
            return Ok(());
        }
        tracing::warn!(blocks = lost.len(), "signers ended without giving back reserved numbers");
        self.append(&lost)?;
        self.sync()
    }

    /// Writes the file anew if it has become long. Only while no other signer lives, and no block is open.
    pub(super) fn compact(&mut self) -> Result<(), Error> {
        if self.read_bytes < LONG_BYTES {
            return Ok(());
        }
        let mut text = TITLE.to_owned();
        for (key_id, State { next, skipped, chain, .. }) in &self.states {
            let line = Line::At { key_id: *key_id, next: *next, skipped: *skipped, chain: *chain };
            text.push_str(&line.write());
        }
        files::replace_private(&self.directory, OPERATIONS_FILE, text.as_bytes())?;
        self.file = open(&self.directory)?;
        self.read_bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// `None` if it cannot follow.
    fn apply(&mut self, line: Line) -> Option<()> {
        match line {
            Line::At { key_id, next, skipped, chain } => {
                let state = State { next, skipped, chain, open: Vec::new() };
                self.states.insert(key_id, state).is_none().then_some(())
            }
            Line::Reserve { key_id, first, last, chain } => {
                let state = self.states.entry(key_id).or_default();
                (first == state.next && last >= first).then_some(())?;
                state.next = last.checked_add(1)?;
                state.chain = chain;
                state.open.push((first, last));
                Some(())
            }
            Line::End { key_id, first, used, chain } => {
                let state = self.states.get_mut(&key_id)?;
                let (_, last) = state.close(first)?;
                (used >= first.checked_sub(1)? && used <= last).then_some(())?;
                if last.checked_add(1)? == state.next {
                    state.next = used.checked_add(1)?;
                    state.chain = chain;
                } else {
                    state.skipped = state.skipped.checked_add(last.checked_sub(used)?)?;
                }
                Some(())
            }
            Line::Lost { key_id, first, last } => {
                let state = self.states.get_mut(&key_id)?;
                (state.close(first)? == (first, last)).then_some(())?;
                let lost = last.checked_sub(first)?.checked_add(1)?;
                state.skipped = state.skipped.checked_add(lost)?;
                Some(())
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.join(OPERATIONS_FILE)
    }

    fn damaged(&self, reason: &'static str) -> Error {
        Error::Damaged { path: self.path(), reason }
    }
}

impl State {
    fn close(&mut self, first: u64) -> Option<(u64, u64)> {
        let at = self.open.iter().position(|(open, _)| *open == first)?;
        Some(self.open.remove(at))
    }
}

impl Line {
    fn write(&self) -> String {
        let key = |key_id: &KeyId| to_hex(key_id.as_bytes());
        match self {
            Self::At { key_id, next, skipped, chain } => {
                format!("{} at {next} {skipped} {}\n", key(key_id), to_hex(chain))
            }
            Self::Reserve { key_id, first, last, chain } => {
                format!("{} reserve {first} {last} {}\n", key(key_id), to_hex(chain))
            }
            Self::End { key_id, first, used, chain } => {
                format!("{} end {first} {used} {}\n", key(key_id), to_hex(chain))
            }
            Self::Lost { key_id, first, last } => format!("{} lost {first} {last}\n", key(key_id)),
        }
    }

    /// Accepts what [`Self::write`] writes, and nothing else.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let key_id = KeyId::parse(&from_hex(words.next()?)?).ok()?;
        let kind = words.next()?;
        let (one, two): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let chain = match words.next() {
            Some(digits) => Some(<[u8; 32]>::try_from(from_hex(digits)?.as_slice()).ok()?),
            None => None,
        };
        let line = match (kind, chain) {
            ("at", Some(chain)) => Self::At { key_id, next: one, skipped: two, chain },
            ("reserve", Some(chain)) => Self::Reserve { key_id, first: one, last: two, chain },
            ("end", Some(chain)) => Self::End { key_id, first: one, used: two, chain },
            ("lost", None) => Self::Lost { key_id, first: one, last: two },
            _ => return None,
        };
        (line.write().trim_end() == text).then_some(line)
    }
}

fn open(directory: &Path) -> Result<File, Error> {
    let file = files::open_to_append(&directory.join(OPERATIONS_FILE))?;
    file.ok_or_else(|| missing(directory, OPERATIONS_FILE))
}
