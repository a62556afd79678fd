//! Signs one file: detect, prepare, stage, ask, verify like a stranger, splice, re-read. Each step takes what
//! the step before returned; a signature that was not verified cannot be spliced.

mod beside;
mod course;
pub mod detached;
pub(crate) mod finish;
mod gather;
pub(crate) mod links;
mod salts;
mod way;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealwright_crypto::algorithm::{KeyAlgorithm, KeyVersion};
use sealwright_crypto::openpgp::certificate::{Certificate, Keyring};
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::openpgp::salt::Salt;
use sealwright_crypto::tbs::{Content, ToBeSigned};
use sealwright_crypto::usage::Usage;
use sealwright_formats::options::SignOptions;
use sealwright_formats::prepared::{Preparation, Prepared};
use sealwright_formats::source::ReadAt as _;
use sealwright_proto::status::{Code, Fault};
use tokio::sync::Semaphore;

use crate::apply::second::{copy_whole, link_or_copy};
use crate::apply::sidecar::StagedSidecars;
use crate::apply::{OutputDirectory, Policy, Staged, Target, Writing, Written};
use crate::batch::{self, Stop};
use crate::campaign::course::{Course, Kept};
use crate::committer::Committer;
use crate::connection::{Connection, Group, Key, KeyState, Priority};
use crate::detect;
use crate::error::Error;
use crate::lane::Lane;
use crate::shown::shown;
use crate::sign::finish::Ready;
use crate::sign::links::Links;
use crate::sign::salts::{Reserve, Ticket, ticket_of};
use crate::sign::way::Way;
use crate::signd::{Holder, Signd, SigningTime};
use crate::source::file::{SourceFile, Until};
use crate::source::{Entry, Place};
use crate::trust;

/// What a user chose about a call.
#[derive(Clone, Debug)]
pub struct Request {
    /// Choices that formats take into account.
    pub options: SignOptions,
    /// Not detected by content but named (`--format`).
    pub format: Option<&'static str>,
    /// A random salt in each signature.
    pub salt: bool,
    /// Everything but asking for a signature and writing.
    pub effect: Effect,
    /// Which of the server's queues.
    pub priority: Priority,
    /// How files are written.
    pub policy: Policy,
}

/// Whether files change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They are signed.
    Write,
    /// `--dry-run`.
    DryRun,
}

/// One key and one set of choices, for any number of files.
pub struct Signer {
    way: Way,
    key: Key,
    certificate: Certificate,
    issuer: Fingerprint,
    keyring: Keyring,
    request: Request,
    output: Option<OutputDirectory>,
    committer: Committer,
    links: Links,
    reserve: Reserve,
    course: Option<Arc<Course>>,
    /// Reads and hashes.
    hashing: Lane,
    /// Checks signatures: not behind files that are read for seconds.
    checking: Lane,
}

/// What a file is to the call that it is part of.
#[derive(Clone, Copy, Default)]
pub struct Part<'a> {
    /// How many files may be in hand at once, from opening to the check of the signature; a file that only waits for the
    /// disk does not count.
    pub in_hand: Option<&'a Semaphore>,
    /// How many other names of it are in the call.
    pub other_names: usize,
    /// Ends it at once, as long as no signature was asked for.
    pub stop: Option<&'a Stop>,
}

/// What became of one file.
#[derive(Debug)]
pub struct FileReport {
    /// Position in the call.
    pub index: usize,
    /// As the user named it.
    pub path: PathBuf,
    /// The format, if it came that far.
    pub format: Option<&'static str>,
    /// What was done, or why not.
    pub outcome: Result<Done, Error>,
    /// What a user may want to know: "payload not checked".
    pub notes: Vec<String>,
    /// What a user must know: "hard link broken ...".
    pub warnings: Vec<String>,
    /// Size of the file before, in bytes; 0 if it could not be opened.
    pub size: u64,
    /// Bytes sent to the server.
    pub sent_bytes: u64,
    /// From opening to the last check.
    pub elapsed: Duration,
    /// Id of the request, if one was made.
    pub request_id: Option<String>,
    /// The server that answered, if it is another process.
    pub server: Option<Arc<str>>,
}

/// What was done with one file.
#[derive(Debug)]
pub enum Done {
    /// Signed, verified, written, re-read.
    Signed(Signed),
    /// Left as it is.
    Unchanged {
        /// "already signed by this key".
        why: String,
        /// With `--output`, the copy.
        copy: Option<Written>,
    },
    /// `--dry-run`: this many signatures would be made.
    WouldSign {
        /// Their number.
        signatures: usize,
    },
    /// Found by `-r`, and of no format with an embedded signature.
    Skipped,
}

/// The facts of a signed file.
#[derive(Clone, Debug)]
pub struct Signed {
    /// Indexes of the log entries, one for each signature.
    pub log_indexes: Vec<u64>,
    /// Fingerprint of the component that signed.
    pub issuer: Fingerprint,
    /// The file that holds the signature.
    pub written: Written,
    /// The file of which it became another name.
    pub leader: Option<PathBuf>,
}

/// Between preparing and finishing: everything that can fail before a signature exists has been tried.
pub(crate) struct Pending {
    prepared: Prepared,
    place: StagedPlace,
    /// The name that is replaced or written.
    target: Option<Target>,
    /// For the journal of a campaign.
    kept: Option<Kept>,
}

enum StagedPlace {
    File(Box<Staged>),
    Sidecars(Box<StagedSidecars>),
}

enum Step {
    Done(Done),
    Ask(Pending),
}

/// What was learnt on the way, whatever the end.
#[derive(Default)]
struct Trail {
    format: Option<&'static str>,
    notes: Vec<String>,
    warnings: Vec<String>,
    size: u64,
    sent_bytes: u64,
    request_id: Option<String>,
    server: Option<Arc<str>>,
}

impl Signer {
    /// Looks the key up and checks that it can be used at all.
    ///
    /// # Errors
    /// There is no such key, it is disabled, the server's description is wrong, or the connection was lost.
    pub async fn new(
        connection: Connection,
        key: &str,
        request: Request,
        output: Option<OutputDirectory>,
    ) -> Result<Self, Error> {
        let key_asked = key;
        let key = connection.describe(key_asked).await?;
        let (certificate, issuer) = key.parse_certificate()?;
        if let Ok(asked) = Fingerprint::from_hex(key_asked)
            && asked != issuer
            && asked != certificate.fingerprint()
        {
            return Err(Error::BadAnswer { what: "another key than the one of this fingerprint" });
        }
        match key.state {
            KeyState::Enabled => {}
            KeyState::Disabled => {
                return Err(Fault::new(Code::KeyDisabled, format!("key {} is disabled", key.name)).into());
            }
        }
        Ok(Self::of(Way::server(connection), (key, certificate, issuer), request, output))
    }

    /// The same with a key of a signd of obs-sign; `certificate` is that of a key that travels with the requests. There are no
    /// log entries then: their indexes are 0.
    ///
    /// # Errors
    /// There is no such key, it cannot be used, or signd was not reached.
    pub async fn of_signd(
        signd: &Arc<Signd>,
        (holder, certificate): (Holder, Option<Certificate>),
        time: SigningTime,
        request: Request,
        output: Option<OutputDirectory>,
    ) -> Result<Self, Error> {
        let found = signd.describe(holder, certificate, request.options.hash, time).await?;
        Ok(Self::of(Way::Signd(found.way), (found.key, found.certificate, found.issuer), request, output))
    }

    fn of(
        way: Way,
        (key, certificate, issuer): (Key, Certificate, Fingerprint),
        request: Request,
        output: Option<OutputDirectory>,
    ) -> Self {
        let keyring = trust::of(certificate.clone());
        Self {
            way,
            key,
            certificate,
            issuer,
            keyring,
            request,
            output,
            committer: Committer::default(),
            links: Links::default(),
            reserve: Reserve::default(),
            course: None,
            hashing: Lane::new(batch::hash_threads),
            checking: Lane::new(batch::cores),
        }
    }

    /// For one short file and a runtime of one thread: no other threads are used, and nothing else happens while the file
    /// is read, hashed and written.
    #[must_use]
    pub fn without_threads(mut self) -> Self {
        (self.hashing, self.checking) = (Lane::here(), Lane::here());
        self.committer = Committer::here();
        self
    }

    /// As a part of a campaign.
    #[must_use]
    pub fn in_campaign(mut self, course: Arc<Course>) -> Self {
        self.course = Some(course);
        self
    }

    /// The certificate of the key in use.
    pub(crate) const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The key in use.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Signs one file. It never fails as a call: the report says what became of the file.
    pub async fn sign(self: &Arc<Self>, index: usize, entry: &Entry) -> FileReport {
        self.sign_part(index, entry, Part::default()).await
    }

    /// Signs one file of a call that knows more of it.
    pub async fn sign_part(self: &Arc<Self>, index: usize, entry: &Entry, part: Part<'_>) -> FileReport {
        let begun = Instant::now();
        let mut trail = Trail::default();
        let mut outcome = self.run(entry, part, &mut trail).await;
        if outcome.as_ref().is_err_and(|error| error.server_code() == Some(Code::TicketRefused)) {
            // The server was restarted, or hashing took longer than a ticket lives. Nothing was signed: once more.
            self.reserve.clear().await;
            trail = Trail::default();
            outcome = self.run(entry, part, &mut trail).await;
        }
        if outcome.as_ref().is_err_and(|error| error.server_code() == Some(Code::RequestConflict))
            && self.course.as_ref().is_some_and(|course| course.journal.forget(&entry.real_path()))
        {
            // A killed run asked for other content of this file, or with other salts.
            trail = Trail::default();
            outcome = self.run(entry, part, &mut trail).await;
        }
        FileReport {
            index,
            path: entry.shown.clone(),
            format: trail.format,
            outcome,
            notes: trail.notes,
            warnings: trail.warnings,
            size: trail.size,
            sent_bytes: trail.sent_bytes,
            elapsed: begun.elapsed(),
            request_id: trail.request_id,
            server: trail.server,
        }
    }

    async fn run(self: &Arc<Self>, entry: &Entry, part: Part<'_>, trail: &mut Trail) -> Result<Done, Error> {
        let permit = match part.in_hand {
            Some(in_hand) => Some(in_hand.acquire().await.map_err(|_| Error::Stopped)?),
            None => None,
        };
        let tickets = self.take_tickets().await?;
        let salts: Vec<Salt> = tickets.iter().map(Ticket::salt).collect();
        let (this, its_entry, stop) = (Arc::clone(self), entry.clone(), part.stop.cloned());
        let prepare = move || {
            let mut learnt = Trail::default();
            (this.prepare(&its_entry, &salts, &mut learnt, stop), learnt)
        };
        let (step, learnt) = self.hashing.run(prepare).await?;
        *trail = learnt;
        let mut pending = match step {
            Ok(Step::Ask(pending)) if !part.stop.is_some_and(Stop::is_asked) => pending,
            other => {
                self.reserve.give_back(tickets).await;
                return match other? {
                    Step::Done(done) => self.note_done(entry, &done, trail.size).await.map(|()| done),
                    Step::Ask(_) => Err(Error::Stopped),
                };
            }
        };
        let name = entry.shown.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let group = self.group(&pending.prepared, &tickets, name, trail.size);
        let answer = match (&self.course, pending.kept.take(), part.stop) {
            // Under an id of its own, which stands in the journal.
            (Some(course), Some(kept), stop) => {
                let id = course.ask(kept, stop).await?;
                self.way.connection()?.sign_as(id, &group, stop).await?
            }
            (_, _, stop) => self.way.ask(group, stop).await?,
        };
        trail.sent_bytes = answer.sent_bytes;
        trail.request_id = Some(answer.request_id.clone()).filter(|id| !id.is_empty());
        trail.server.clone_from(&answer.server);
        let target = pending.target.clone();
        let this = Arc::clone(self);
        let ready = self.checking.run(move || this.finish(pending, answer)).await??;
        drop(permit);
        let Ready { job, log_indexes, notes } = ready;
        trail.notes.extend(notes);
        let log_index = log_indexes.first().copied().unwrap_or_default();
        let not_applied = |source| Error::NotApplied { log_index, source: Box::new(source) };
        let written = self.committer.commit(job).await.map_err(not_applied)?;
        let signed = Signed { log_indexes, issuer: self.issuer, written, leader: None };
        if let Some(target) = target {
            self.links.remember(target, &signed, trail.format);
        }
        if let Some(course) = &self.course {
            let size = signed.written.size;
            course.journal.applied(&entry.real_path(), size, Some(log_index)).await?;
        }
        let others = u64::try_from(part.other_names).unwrap_or(u64::MAX);
        trail.warnings.extend(links::note(&self.request.policy, &signed.written, others));
        trail.warnings.extend(signed.written.notes.iter().map(|note| (*note).to_owned()));
        Ok(Done::Signed(signed))
    }

    fn group(&self, prepared: &Prepared, tickets: &[Ticket], name: String, size: u64) -> Group {
        let item = |item: &sealwright_formats::prepared::Item| ToBeSigned {
            usage: Usage::OpenPgp,
            purpose: item.purpose,
            content: Content::Midstate(item.content.midstate()),
            ticket: ticket_of(tickets, item),
        };
        Group {
            key: self.key.name.clone(),
            priority: self.request.priority,
            name,
            size,
            items: prepared.items.iter().map(item).collect(),
            more: Vec::new(),
            salt: self.request.salt,
        }
    }

    /// Everything up to asking. Runs on a thread that may block.
    fn prepare(
        &self,
        entry: &Entry,
        salts: &[Salt],
        trail: &mut Trail,
        stop: Option<Stop>,
    ) -> Result<Step, Error> {
        if stop.as_ref().is_some_and(Stop::is_asked) {
            return Err(Error::Stopped);
        }
        if entry.is_found() && !self.is_package(entry)? {
            return Ok(Step::Done(Done::Skipped));
        }
        let source = Arc::new(SourceFile::open_locked(entry)?);
        trail.size = source.len();
        if let Some(step) = self.relink(&source, trail)? {
            return Ok(step);
        }
        trail.warnings.extend(source.notes().iter().map(|note| (*note).to_owned()));
        let format = detect::format(&source, self.request.format)?;
        trail.format = Some(format.name());
        if self.is_made_before(entry, &source, format, salts)? {
            let why = "signed by an earlier run".to_owned();
            return Ok(Step::Done(Done::Unchanged { why, copy: None }));
        }
        if !format.is_found() || matches!(self.request.policy.writing, Writing::InPlace(_)) {
            source.read_once();
        }
        let whole = Until { source: &source, stop };
        let preparation = format
            .prepare(&whole, &self.request.options, &self.certificate, salts)
            .map_err(|error| if whole.ended() { Error::Stopped } else { error.into() })?;
        let mut prepared = match preparation {
            Preparation::Leave { why } => return self.leave(entry, &source, why, trail),
            Preparation::Sign(prepared) => prepared,
        };
        trail.notes.append(&mut prepared.notes);
        self.stage(entry, source, prepared)
    }

    fn stage(&self, entry: &Entry, source: Arc<SourceFile>, prepared: Prepared) -> Result<Step, Error> {
        let target = self.target(entry, &source)?;
        if !prepared.beside.is_empty() {
            return self.stage_beside(entry, source, target.as_ref(), prepared);
        }
        let replaced = target.is_none().then(|| Target::replacing(&source));
        let target = target.unwrap_or_else(|| Target::replacing(&source));
        let packet_len = self.packet_len_max()?;
        let room = |layout| prepared.plan.room(packet_len, layout);
        if self.request.effect == Effect::DryRun {
            Staged::check(&source, &target, &self.request.policy, &room)?;
            return Ok(Step::Done(Done::WouldSign { signatures: prepared.items.len() }));
        }
        let staged = Staged::stage(Arc::clone(&source), target, &self.request.policy, &room)?;
        let kept = match &self.course {
            Some(_) => Some(Course::keep(&source, &room(staged.layout()))?),
            None => None,
        };
        let place = StagedPlace::File(Box::new(staged));
        Ok(Step::Ask(Pending { prepared, place, target: replaced, kept }))
    }

    /// Another name of a file that this call has signed already becomes a name of the signed file.
    fn relink(&self, source: &SourceFile, trail: &mut Trail) -> Result<Option<Step>, Error> {
        if !self.request.policy.keeps_links() || self.output.is_some() {
            return Ok(None);
        }
        let Some((signed, format)) = self.links.relink(source)? else { return Ok(None) };
        trail.format = format;
        let first = shown(&signed.1);
        trail.notes.push(format!("a hard link to {first}"));
        Ok(Some(Step::Done(Done::Signed(Signed { leader: Some(signed.1), ..signed.0 }))))
    }

    /// The file stays as it is; with `--output` it is copied, so that the directory is complete.
    fn leave(
        &self,
        entry: &Entry,
        source: &Arc<SourceFile>,
        why: String,
        trail: &mut Trail,
    ) -> Result<Step, Error> {
        let copy = match self.target(entry, source)? {
            Some(target) if self.request.effect == Effect::Write => {
                let links = self.output.as_ref().is_some_and(OutputDirectory::links_unchanged);
                let copy = if links { link_or_copy(source, target)? } else { copy_whole(source, target)? };
                trail.warnings.extend(copy.notes.iter().map(|note| (*note).to_owned()));
                Some(copy)
            }
            Some(_) | None => None,
        };
        Ok(Step::Done(Done::Unchanged { why, copy }))
    }

    fn target(&self, entry: &Entry, source: &SourceFile) -> Result<Option<Target>, Error> {
        self.output.as_ref().map(|output| output.target(entry, source)).transpose()
    }

    fn is_package(&self, entry: &Entry) -> Result<bool, Error> {
        let source = SourceFile::open(entry)?;
        match self.request.format.and_then(sealwright_formats::by_name) {
            Some(format) => Ok(format.detect(&source.head(sealwright_formats::DETECT_BYTES)?)),
            None => Ok(detect::detect(&source)?.is_some()),
        }
    }

    /// Bytes of a signature packet that this key can make at most (crypto/src/openpgp/signature.rs has the parts).
    fn packet_len_max(&self) -> Result<usize, Error> {
        /// Packet header, fixed fields, creation time, issuer fingerprint, digest prefix; key id (version 4), or longer
        /// lengths and the salt (version 6).
        const FIXED: [usize; 2] = [64, 104];
        /// The salt notation.
        const SALT: usize = 96;
        let algorithm = KeyAlgorithm::from_name(&self.key.algorithm)
            .map_err(|source| Error::BadAnswerBytes { what: "key algorithm", source })?;
        let raw = match algorithm {
            KeyAlgorithm::Rsa(bits) => usize::from(bits.div_ceil(8)).saturating_add(2),
            KeyAlgorithm::Ed25519 => 68,
        };
        let salt = if self.request.salt { SALT } else { 0 };
        let [v4, v6] = FIXED;
        let fixed = match self.certificate.fingerprint().version() {
            KeyVersion::V4 => v4,
            KeyVersion::V6 => v6,
        };
        Ok(raw.saturating_add(fixed).saturating_add(salt))
    }
}

/// Runs file work on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Internal("a worker thread ended"))
}

impl Entry {
    /// Files found by `-r` are looked at before they are locked: most of a tree is not ours to touch.
    const fn is_found(&self) -> bool {
        matches!(self.place, Place::Found { .. })
    }
}
