//! Which format a file is of: by its content, or as the user says.

use sealwright_formats::{DETECT_BYTES, Format};

use crate::error::{Content, Error};
use crate::source::file::SourceFile;

/// The format named, or the one that recognises the content.
///
/// # Errors
/// No such name, or no format with an embedded signature recognises the content.
pub(crate) fn format(source: &SourceFile, named: Option<&str>) -> Result<&'static dyn Format, Error> {
    if let Some(name) = named {
        return sealwright_formats::by_name(name).ok_or(Error::Internal("a format that is not registered"));
    }
    let head = source.head(DETECT_BYTES)?;
    sealwright_formats::recognise(&head).ok_or_else(|| Error::UnknownContent { content: Content::of(&head) })
}

/// The format that shows in the content, signed or not, if any: what `-r` finds.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn detect(source: &SourceFile) -> Result<Option<&'static dyn Format>, Error> {
    Ok(sealwright_formats::detect(&source.head(DETECT_BYTES)?))
}

/// The format with embedded signatures that recognises the content, which may be a signed file only.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn recognise(source: &SourceFile) -> Result<Option<&'static dyn Format>, Error> {
    Ok(sealwright_formats::recognise(&source.head(DETECT_BYTES)?))
}
