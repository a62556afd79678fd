//! Opening: permissions, the version check that touches nothing, migrations under a lock.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection, SqlitePool};

use crate::copier;
use crate::error::{Doing as _, Error};

/// The schema, embedded. A number is never reused and a released file never edited.
static MIGRATOR: Migrator = sqlx::migrate!("./migrations/sqlite");

/// How long a writer waits for a writer of another process, and an opener for another opener.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// Pause between two tries for the opening lock.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// Readers at once: reads are short look-ups, off the path of a request whose key is in the snapshot.
const READERS_MAX: u32 = 4;

/// Pages that the writing connection keeps, as SQLite counts: 8 MiB (minus: in KiB). The states of 100,000 keys fit; the
/// driver's 2 MiB do not hold them.
const WRITER_CACHE: &str = "-8192";

/// Connections to one store.
pub(crate) struct Pools {
    pub(crate) readers: SqlitePool,
    /// One connection: SQLite has one writer at a time anyway.
    pub(crate) writer: SqlitePool,
}

/// Names in the folder of the store.
pub(crate) const FILE_NAME: &str = "store.db";
const LOCK_NAME: &str = "store.lock";

/// Opens the store in `folder`, or makes it: folder 0700, files 0600.
pub(crate) async fn open(folder: &Path) -> Result<Pools, Error> {
    prepare_folder(folder)?;
    // The lock makes the first openings of several processes one after the other. It is given back when the
    // file is closed, at the end of this function.
    let _lock = lock(&folder.join(LOCK_NAME)).await?;
    let path = &folder.join(FILE_NAME);
    prepare_file(path)?;
    refuse_newer(path).await?;
    // No question first whether a connection is still there: it is a file, and to ask is a way to the driver's thread and
    // back for each commit and look-up.
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .connect_with(writer_options(path))
        .await
        .doing("open the store")?;
    MIGRATOR.run(&writer).await.map_err(|error| migration_error(path, error))?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS_MAX)
        .test_before_acquire(false)
        .connect_lazy_with(options(path).read_only(true));
    Ok(Pools { readers, writer })
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .foreign_keys(true)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

/// No look for the key of each log entry: the transaction that appends has looked, and keys are never deleted. A look is for
/// each entry a place in an index of all keys.
fn writer_options(path: &Path) -> SqliteConnectOptions {
    options(path)
        .foreign_keys(false)
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("cache_size", WRITER_CACHE)
        .pragma("wal_autocheckpoint", copier::PAGES_MAX)
}

fn path_error(doing: &'static str, path: &Path, source: std::io::Error) -> Error {
    if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        return Error::Full;
    }
    if source.kind() == ErrorKind::FileTooLarge {
        return Error::CannotGrow;
    }
    Error::Path { doing, path: path.to_owned(), source: Arc::new(source) }
}

/// Makes the folder (0700) where it is missing; refuses one in which others than its owner, who is ourselves, could
/// replace the file.
fn prepare_folder(folder: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| path_error("make the folder", folder, source))?;
    let metadata = std::fs::metadata(folder).map_err(|source| path_error("look at", folder, source))?;
    check_owner(folder, &metadata)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o022 == 0 {
        return Ok(());
    }
    let reason = "others can write in the folder of the store; chmod 700 it";
    Err(Error::Permissions { path: folder.to_owned(), mode, reason })
}

/// Makes the file (0600) where it is missing, before SQLite does: its journals copy the mode.
fn prepare_file(path: &Path) -> Result<(), Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| path_error("open the store", path, source))?;
    let metadata = file.metadata().map_err(|source| path_error("look at", path, source))?;
    check_owner(path, &metadata)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let reason = "the store is open to others; chmod 600 it";
    Err(Error::Permissions { path: path.to_owned(), mode, reason })
}

/// Ours, also if we are root: what another user can write is not ours to trust.
fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == user {
        return Ok(());
    }
    Err(Error::OtherOwner { path: path.to_owned(), owner, user })
}

async fn lock(path: &Path) -> Result<File, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| path_error("open the lock", path, source))?;
    let mut waited = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if waited < BUSY_TIMEOUT => {
                tokio::time::sleep(LOCK_POLL).await;
                waited = waited.saturating_add(LOCK_POLL);
            }
            Err(TryLockError::WouldBlock) => return Err(Error::Busy),
            Err(TryLockError::Error(source)) => return Err(path_error("lock", path, source)),
        }
    }
}

/// Reads the schema version through a read-only connection, so that a store of a newer release, or a file
/// that is not ours, keeps every byte.
async fn refuse_newer(path: &Path) -> Result<(), Error> {
    if std::fs::metadata(path).map_err(|source| path_error("look at", path, source))?.len() == 0 {
        return Ok(());
    }
    let mut connection =
        options(path).read_only(true).connect().await.doing("open the store to look at its version")?;
    let checked = check_version(path, &mut connection).await;
    connection.close().await.doing("close the store")?;
    checked
}

async fn check_version(path: &Path, connection: &mut SqliteConnection) -> Result<(), Error> {
    let tables = sqlx::query(
        "SELECT COUNT(*), COUNT(CASE WHEN name = '_sqlx_migrations' THEN 1 END) FROM sqlite_master",
    )
    .fetch_one(&mut *connection)
    .await
    .doing("look at the tables of the store")?;
    let (all, ours): (i64, i64) = (tables.get(0), tables.get(1));
    if all == 0 {
        return Ok(());
    }
    if ours == 0 {
        return Err(Error::NotAStore { path: path.to_owned(), reason: "it is a database of something else" });
    }
    let applied = sqlx::query_scalar::<_, Option<i64>>("SELECT MAX(version) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await
        .doing("read the version of the store")?;
    let known = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0);
    match applied {
        Some(version) if version > known => Err(Error::NewerStore { path: path.to_owned(), version, known }),
        Some(_) | None => Ok(()),
    }
}

fn migration_error(path: &Path, error: MigrateError) -> Error {
    let not_a_store = |reason| Error::NotAStore { path: path.to_owned(), reason };
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum is the driver's and not exhaustive")]
    match error {
        MigrateError::VersionMissing(version) => {
            let known = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0);
            Error::NewerStore { path: path.to_owned(), version, known }
        }
        MigrateError::VersionMismatch(_) => not_a_store("a step of its schema differs from ours"),
        MigrateError::Dirty(_) => not_a_store("a migration was interrupted; restore a backup"),
        MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => {
            Error::database("bring the store up to date", source)
        }
        other => Error::database("bring the store up to date", sqlx::Error::Migrate(Box::new(other))),
    }
}
