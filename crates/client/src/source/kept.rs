//! Files that a person keeps (configuration, certificates, keys of TLS): regular ones, read whole up to a limit. Unlike
//! what `whole.rs` reads they are never pipes, and nobody waits for one.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use zeroize::{Zeroize as _, Zeroizing};

/// Opens a regular file. Anything else is refused, and at once: a FIFO would keep us waiting for its writer.
///
/// # Errors
/// What the system says; [`ErrorKind::InvalidInput`] for what is no regular file.
pub fn open(path: &Path) -> std::io::Result<File> {
    let file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"))
}

/// The whole of an open file, wiped when dropped.
///
/// # Errors
/// What the system says; [`ErrorKind::FileTooLarge`] for more than `limit` bytes, also when it grows meanwhile.
pub fn read(file: &File, limit: usize) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let too_large = || Error::new(ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"));
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if length > limit {
        return Err(too_large());
    }
    // Whole from the start: a vector that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(length.saturating_add(1)));
    let bounded = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(bounded).read_to_end(&mut bytes)?;
    if bytes.len() > limit { Err(too_large()) } else { Ok(bytes) }
}

/// The whole of a text file.
///
/// # Errors
/// As [`open`] and [`read`]; [`ErrorKind::InvalidData`] for what is not UTF-8.
pub fn read_text(path: &Path, limit: usize) -> std::io::Result<String> {
    let mut bytes = read(&open(path)?, limit)?;
    String::from_utf8(std::mem::take(&mut *bytes)).map_err(|error| {
        error.into_bytes().zeroize();
        Error::new(ErrorKind::InvalidData, "it is no text in UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        for path in [fifo.as_path(), folder.path(), Path::new("/dev/zero")] {
            let refused = read_text(path, 10).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{}", path.display());
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_refused_beyond() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read_text(&path, 10).unwrap(), "0123456789");
        assert_eq!(read_text(&path, 9).unwrap_err().kind(), ErrorKind::FileTooLarge);
        // One that says that it is empty.
        assert_eq!(read_text(Path::new("/proc/self/maps"), 9).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
