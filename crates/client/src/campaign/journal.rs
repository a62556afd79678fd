//! The journal of a campaign: which request was on its way for which file, and the bytes that were there before. It only
//! grows; a lock on it says that its process lives. `record.rs` has its bytes, `docs/adr/0016-campaigns.md` the reasons.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use sealwright_crypto::digest::to_hex;
use uuid::Uuid;

use crate::apply::journal::StateDirectory;
use crate::apply::undo::PATH_BYTES_MAX;
use crate::campaign::record::{self, Before, FRAME_BYTES, HEAD_BYTES, Head, Malformed, Record};
use crate::error::{CampaignFault, Error, FileKind, Retry};
use crate::sign::finish::now;

/// Bytes at the end that a crash can have torn: what was being written when it came. More is damage.
const TORN_BYTES_MAX: u64 = 16 << 20;
/// Records that nobody waits for are written when so many bytes of them are there.
const UNWRITTEN_BYTES_MAX: usize = 256 << 10;
/// Requests that are open at once at most: files in hand of a few killed runs.
const OPEN_MAX: usize = 1_000_000;

/// Where a journal lies.
#[derive(Clone, Debug)]
pub enum Place {
    /// In this directory, for its owner alone, under a name that comes from what was asked for.
    StateDirectory(PathBuf),
    /// In this file.
    File(PathBuf),
}

/// What a journal says of runs before this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Past {
    /// There was none, or it had finished.
    None,
    /// The campaign was begun and goes on.
    Begun {
        /// Unix seconds.
        at: i64,
        /// Files that carry the new signature already.
        applied: u64,
        /// Files for which a signature was asked for and of which nothing more is known.
        open: usize,
    },
}

/// Whether a campaign has been before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Never, by its journal.
    First,
    /// It has finished.
    Again,
}

/// An open journal, locked.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    head: Head,
    state: Mutex<State>,
    at_work: tokio::sync::Mutex<()>,
    /// A write or a sync has failed, in this way: nothing may follow what is on the disk.
    broken: OnceLock<Broken>,
    /// Whether a signature was ever asked for.
    was_used: AtomicBool,
    /// Held while the file is written: whoever waited for it may be gone.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Encoded, not written yet.
    queue: Vec<u8>,
    /// How many records were put into the queue, and how many of them are synced.
    queued: u64,
    synced: u64,
    /// Requests without a known end, by the path of their file.
    open: HashMap<Vec<u8>, [u8; 16]>,
}

impl Journal {
    /// Opens the journal of what has this digest, or makes it, if `may_begin` has nothing against it. One that has finished is
    /// moved aside first.
    ///
    /// # Errors
    /// It is in use, of another campaign, or damaged; the place cannot be used; those of `may_begin`.
    pub fn open(
        place: &Place,
        digest: [u8; 32],
        may_begin: &dyn Fn(Start) -> Result<(), Error>,
    ) -> Result<(Self, Past), Error> {
        let path = match place {
            Place::StateDirectory(directory) => {
                StateDirectory::open(directory)?;
                let name = to_hex(digest.first_chunk::<8>().map_or(&[][..], |chunk| chunk));
                directory.join(format!("campaign-{name}"))
            }
            Place::File(path) => path.clone(),
        };
        for _ in 0..2 {
            let file = open(&path, OFlags::CREATE | OFlags::APPEND)?;
            if length(&file, &path)? == 0 {
                // Half a head would be taken for damage.
                let begun = may_begin(Start::First).and_then(|()| Self::begin(&path, file, digest));
                let begun = begun.inspect_err(|_| drop(std::fs::remove_file(&path)));
                return begun.map(|journal| (journal, Past::None));
            }
            let head = read_head(&file, &path)?;
            if head.digest != digest {
                return Err(CampaignFault::JournalOfAnother { path }.into());
            }
            let journal = Self::new(path.clone(), file, head);
            match journal.replay()? {
                Some(past) => return Ok((journal, past)),
                None => {
                    may_begin(Start::Again)?;
                    journal.move_aside()?;
                }
            }
        }
        Err(Error::Internal("a finished journal came back"))
    }

    /// Opens a journal to undo what it says; nothing of it is changed.
    ///
    /// # Errors
    /// It is in use, or its head is damaged.
    pub fn open_existing(path: &Path) -> Result<Self, Error> {
        let file = open(path, OFlags::APPEND)?;
        let head = read_head(&file, path)?;
        Ok(Self::new(path.to_owned(), file, head))
    }

    fn new(path: PathBuf, file: File, head: Head) -> Self {
        let state = Mutex::default();
        Self {
            path,
            file,
            head,
            state,
            at_work: tokio::sync::Mutex::default(),
            broken: OnceLock::new(),
            was_used: AtomicBool::new(false),
            writing: Mutex::default(),
        }
    }

    fn begin(path: &Path, file: File, digest: [u8; 32]) -> Result<Self, Error> {
        let head = Head { id: Uuid::now_v7().into_bytes(), digest, begun: now() };
        let bytes = head.encode();
        (&file).write_all(&bytes).map_err(|error| Error::write(path, HEAD_BYTES as u64, error))?;
        let failed = |error: Errno| Error::sync(path, HEAD_BYTES as u64, error.into());
        rustix::fs::fsync(&file).map_err(failed)?;
        sync_parent(path)?;
        Ok(Self::new(path.to_owned(), file, head))
    }

    /// Reads all records; `None` if the campaign has finished. What is torn at the end is cut off.
    fn replay(&self) -> Result<Option<Past>, Error> {
        let (mut applied, mut finished) = (0u64, false);
        let mut open: HashMap<Vec<u8>, [u8; 16]> = HashMap::new();
        let end = self.records(&mut |record| {
            finished = false;
            match record {
                Record::Asked { path, request_id, .. } => {
                    self.was_used.store(true, Ordering::Relaxed);
                    open.insert(path, request_id);
                }
                Record::Applied { path, .. } => {
                    open.remove(&path);
                    applied = applied.saturating_add(1);
                }
                Record::Failed { path, may_be_signed: false, .. } => {
                    open.remove(&path);
                }
                Record::Linked { .. } => applied = applied.saturating_add(1),
                Record::Planned { .. } | Record::Failed { .. } => {}
                Record::Finished => finished = true,
            }
            if open.len() > OPEN_MAX { Err(Malformed::Limit("the number of open requests")) } else { Ok(()) }
        })?;
        let len = length(&self.file, &self.path)?;
        if end < len {
            let io = |error: Errno| Error::write(&self.path, end, error.into());
            rustix::fs::ftruncate(&self.file, end).map_err(io)?;
            rustix::fs::fsync(&self.file).map_err(|error| Error::sync(&self.path, end, error.into()))?;
        }
        if finished {
            return Ok(None);
        }
        let past = Past::Begun { at: self.head.begun, applied, open: open.len() };
        self.lock().open = open;
        Ok(Some(past))
    }

    /// Gives every record to `take`, and says where the last whole one ends.
    pub(crate) fn records(
        &self,
        take: &mut dyn FnMut(Record) -> Result<(), Malformed>,
    ) -> Result<u64, Error> {
        match self.whole_records(take)? {
            (end, None) => Ok(end),
            (_, Some(damaged)) => Err(damaged),
        }
    }

    /// Gives every record to `take` that is whole, also behind a damaged place; where the last of them ends, and the
    /// damage. What a crash tore has no whole record behind it, and is none.
    ///
    /// # Errors
    /// It cannot be read; it is damaged as a whole; those of `take`.
    pub fn whole_records(
        &self,
        take: &mut dyn FnMut(Record) -> Result<(), Malformed>,
    ) -> Result<(u64, Option<Error>), Error> {
        let len = length(&self.file, &self.path)?;
        let (mut at, mut damage) = (HEAD_BYTES as u64, None);
        while at < len {
            match self.record_at(at, len) {
                Ok((record, bytes)) => {
                    take(record).map_err(|source| self.damaged(source))?;
                    at = at.saturating_add(bytes);
                }
                Err(ReadFault::Io(error)) => return Err(Error::io("read", &self.path, error)),
                Err(ReadFault::Malformed(source)) => match self.next_whole(at, len)? {
                    Some(next) => {
                        at = next;
                        damage.get_or_insert(source);
                    }
                    None if len.saturating_sub(at) <= TORN_BYTES_MAX => break,
                    None => return Err(self.damaged(source)),
                },
            }
        }
        Ok((at, damage.map(|source| self.damaged(source))))
    }

    /// Where the next whole record begins behind a place that is none.
    fn next_whole(&self, at: u64, len: u64) -> Result<Option<u64>, Error> {
        let tail = len.saturating_sub(at).min(TORN_BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(tail).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, at).map_err(|error| Error::io("read", &self.path, error))?;
        let next = record::next(&bytes).map_err(|source| self.damaged(source))?;
        Ok(next.map(|from| at.saturating_add(u64::try_from(from).unwrap_or(u64::MAX))))
    }

    fn record_at(&self, at: u64, len: u64) -> Result<(Record, u64), ReadFault> {
        let mut bytes = vec![0; 4];
        let rest = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX);
        if rest < FRAME_BYTES {
            return Err(Malformed::Length.into());
        }
        self.file.read_exact_at(&mut bytes, at)?;
        let body = bytes.first_chunk::<4>().copied().map_or(0, u32::from_be_bytes);
        let whole = usize::try_from(body).unwrap_or(usize::MAX).saturating_add(FRAME_BYTES);
        if whole > record::BODY_BYTES_MAX.saturating_add(FRAME_BYTES) {
            return Err(Malformed::Limit("the length of a record").into());
        }
        if whole > rest {
            return Err(Malformed::Length.into());
        }
        bytes.resize(whole, 0);
        self.file.read_exact_at(&mut bytes, at)?;
        let (body, used) = record::first(&bytes)?;
        Ok((Record::parse(body)?, u64::try_from(used).unwrap_or(u64::MAX)))
    }

    fn damaged(&self, source: Malformed) -> Error {
        CampaignFault::JournalDamaged { path: self.path.clone(), source }.into()
    }

    /// Under another name it is kept: it is the way back.
    fn move_aside(self) -> Result<(), Error> {
        let id = to_hex(self.head.id.last_chunk::<4>().map_or(&[][..], |chunk| chunk));
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{id}.done"));
        let aside = self.path.with_file_name(name);
        std::fs::rename(&self.path, &aside).map_err(|error| Error::io("rename", &self.path, error))?;
        sync_parent(&self.path)
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Id of the campaign, a UUID.
    #[must_use]
    pub fn id(&self) -> String {
        Uuid::from_bytes(self.head.id).to_string()
    }

    /// The request id for a file: the one under which a signature was asked for already, or a new one, which is durable when
    /// this returns.
    ///
    /// # Errors
    /// The journal cannot be written: then nothing may be asked for.
    pub(crate) async fn asked(self: &Arc<Self>, path: &Path, before: Before) -> Result<Uuid, Error> {
        let key = key_of(path)?;
        let known = self.lock().open.get(&key).copied();
        if let Some(id) = known {
            return Ok(Uuid::from_bytes(id));
        }
        self.was_used.store(true, Ordering::Relaxed);
        let id = Uuid::now_v7();
        let record = Record::Asked { path: key.clone(), request_id: id.into_bytes(), before };
        self.lock().open.insert(key, id.into_bytes());
        self.write(&record, Durable::Now).await?;
        Ok(id)
    }

    /// The ids of requests without a known end. The processes that asked are dead: the lock on this journal says so.
    #[must_use]
    pub fn open_requests(&self) -> Vec<Uuid> {
        self.lock().open.values().map(|id| Uuid::from_bytes(*id)).collect()
    }

    /// Whether a signature was asked for and nothing more is known.
    #[must_use]
    pub(crate) fn is_open(&self, path: &Path) -> bool {
        self.lock().open.contains_key(path.as_os_str().as_bytes())
    }

    /// Other content is asked for under another id.
    pub(crate) fn forget(&self, path: &Path) -> bool {
        self.lock().open.remove(path.as_os_str().as_bytes()).is_some()
    }

    /// The file carries the signature.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) async fn applied(
        self: &Arc<Self>,
        path: &Path,
        size: u64,
        log_index: Option<u64>,
    ) -> Result<(), Error> {
        let path = key_of(path)?;
        self.lock().open.remove(&path);
        self.write(&Record::Applied { path, size, log_index }, Durable::Later).await
    }

    /// The file is another name of one that carries the signature.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) async fn linked(self: &Arc<Self>, path: &Path, leader: &Path) -> Result<(), Error> {
        let (path, leader) = (key_of(path)?, key_of(leader)?);
        self.write(&Record::Linked { path, leader }, Durable::Later).await
    }

    /// The file failed. Where the server refused it nothing was signed, and the next attempt is a new request.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) async fn failed(self: &Arc<Self>, path: &Path, error: &Error) -> Result<(), Error> {
        let refused = error.server_code().is_some() && error.retry() == Retry::No;
        if refused {
            self.forget(path);
        }
        let may_be_signed = self.is_open(path);
        let why = error.to_string();
        self.write(&Record::Failed { path: key_of(path)?, may_be_signed, why }, Durable::Later).await
    }

    /// What is ahead.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) async fn planned(self: &Arc<Self>, files: u64, bytes: u64) -> Result<(), Error> {
        self.write(&Record::Planned { files, bytes }, Durable::Later).await
    }

    /// Nothing is left to do. A journal in which nothing was asked for goes, but for that of a second tree (`keeps`): it says
    /// that the tree is complete. One that says what was replaced stays. Returns whether it stays.
    ///
    /// # Errors
    /// The journal cannot be written or removed.
    pub async fn finish(self: &Arc<Self>, keeps: bool) -> Result<bool, Error> {
        if keeps || self.was_used.load(Ordering::Relaxed) {
            self.write(&Record::Finished, Durable::Now).await?;
            return Ok(true);
        }
        std::fs::remove_file(&self.path).map_err(|error| Error::io("remove", &self.path, error))?;
        Ok(false)
    }

    /// All that was noted is on the disk.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn flush(self: &Arc<Self>) -> Result<(), Error> {
        let upto = self.lock().queued;
        self.reach(upto).await
    }

    async fn write(self: &Arc<Self>, record: &Record, durable: Durable) -> Result<(), Error> {
        let (upto, waiting) = {
            let mut state = self.lock();
            state.queue.extend(record.encode());
            state.queued = state.queued.saturating_add(1);
            (state.queued, state.queue.len())
        };
        match durable {
            Durable::Later if waiting < UNWRITTEN_BYTES_MAX => Ok(()),
            Durable::Later | Durable::Now => self.reach(upto).await,
        }
    }

    /// Waits until so many records are synced; whoever finds nobody at work writes all that is there.
    async fn reach(self: &Arc<Self>, upto: u64) -> Result<(), Error> {
        let _turn = self.at_work.lock().await;
        if let Some(broken) = self.broken.get() {
            return Err(broken.again(&self.path));
        }
        let (bytes, queued) = {
            let mut state = self.lock();
            if state.synced >= upto {
                return Ok(());
            }
            (std::mem::take(&mut state.queue), state.queued)
        };
        let this = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || this.write_and_sync(&bytes)).await;
        match written.map_err(|_| Error::Internal("a worker thread ended")).flatten() {
            Ok(()) => {
                self.lock().synced = queued;
                Ok(())
            }
            Err(error) => {
                let _ = self.broken.set(Broken::by(&error));
                Err(error)
            }
        }
    }

    fn write_and_sync(&self, bytes: &[u8]) -> Result<(), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let need = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        (&self.file).write_all(bytes).map_err(|error| Error::write(&self.path, need, error))?;
        rustix::fs::fdatasync(&self.file).map_err(|error| Error::sync(&self.path, need, error.into()))
    }

    /// The state has nothing that a panic elsewhere could leave half made.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a record is waited for.
#[derive(Clone, Copy)]
enum Durable {
    Now,
    /// With the next one that is; lost, the tree says it.
    Later,
}

/// Why a journal takes nothing more.
#[derive(Clone, Copy, Debug)]
enum Broken {
    /// There was no room for it.
    Full { kind: io::ErrorKind, need: u64 },
    /// What is on the disk is not known.
    Unknown(io::ErrorKind),
}

impl Broken {
    fn by(error: &Error) -> Self {
        if let Error::NoSpace { source, need, .. } | Error::Quota { source, need, .. } = error {
            return Self::Full { kind: source.kind(), need: *need };
        }
        let Error::Sync { source, .. } = error else { return Self::Unknown(io::ErrorKind::Other) };
        Self::Unknown(source.kind())
    }

    fn again(self, path: &Path) -> Error {
        match self {
            Self::Full { kind, need } => Error::write(path, need, kind.into()),
            Self::Unknown(kind) => Error::Sync { path: path.to_owned(), source: kind.into() },
        }
    }
}

enum ReadFault {
    Io(io::Error),
    Malformed(Malformed),
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for ReadFault {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

fn key_of(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > PATH_BYTES_MAX {
        return Err(Error::io("note in the journal", path, Errno::NAMETOOLONG.into()));
    }
    Ok(bytes.to_vec())
}

/// A regular file of this user, locked.
fn open(path: &Path, more: OFlags) -> Result<File, Error> {
    let io = |error: Errno| Error::io("open the journal", path, error.into());
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | more;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(io)?);
    let stat = rustix::fs::fstat(&file).map_err(io)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let source = Box::new(Error::NotAFile { kind: FileKind::Unknown });
        return Err(Error::Beside { what: "the journal", path: path.to_owned(), source });
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    if stat.st_uid != rustix::process::geteuid().as_raw() || mode.intersects(Mode::RWXG | Mode::RWXO) {
        let (owner, mode) = (stat.st_uid, mode.bits());
        return Err(Error::StateDirectoryOpen { path: path.to_owned(), owner, mode });
    }
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(CampaignFault::JournalBusy { path: path.to_owned() }.into()),
        Err(error) => Err(Error::io("lock the journal", path, error.into())),
    }
}

fn read_head(file: &File, path: &Path) -> Result<Head, Error> {
    let mut bytes = [0; HEAD_BYTES];
    let damaged = |source| Error::from(CampaignFault::JournalDamaged { path: path.to_owned(), source });
    if length(file, path)? < HEAD_BYTES as u64 {
        return Err(damaged(Malformed::Length));
    }
    file.read_exact_at(&mut bytes, 0).map_err(|error| Error::io("read", path, error))?;
    Head::parse(&bytes).map_err(damaged)
}

fn length(file: &File, path: &Path) -> Result<u64, Error> {
    file.metadata().map(|meta| meta.len()).map_err(|error| Error::io("look at", path, error))
}

fn sync_parent(path: &Path) -> Result<(), Error> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = rustix::fs::open(parent, flags, Mode::empty()).and_then(rustix::fs::fsync);
    match synced {
        Ok(()) | Err(Errno::ACCESS | Errno::INVAL | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(Error::sync(parent, 0, error.into())),
    }
}

#[cfg(test)]
mod tests;
