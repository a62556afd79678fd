//! Every limit on an RPM package: ours on what is read, and those of each rpm release on what is written.
//!
//! Source of the table: the function that reads a signature header in each release of
//! github.com/rpm-software-management/rpm. Distributions patch: an enterprise release may read more than the
//! upstream release of the same number.

use crate::error::Error;

/// Bytes of the lead (rpm `lib/rpmlead.c`).
pub(super) const LEAD_BYTES: u64 = 96;
/// Entries of a main header (rpm `lib/header.c`, `HEADER_TAGS_MAX`): its index is at most 1 MiB.
pub(super) const MAIN_ENTRIES_MAX: u32 = 0xffff;
/// Bytes of data of a main header (rpm `lib/header.c`, `HEADER_DATA_MAX`). They are streamed, not kept.
pub(super) const MAIN_DATA_BYTES_MAX: u32 = 0x0fff_ffff;
/// Entries of a signature header, in every release of rpm since 4.4.
pub(super) const SIGNATURE_ENTRIES_MAX: u32 = 32;
/// Bytes of data of a signature header that any rpm reads (4.16 and later). It is kept in memory whole.
pub(super) const SIGNATURE_DATA_BYTES_MAX: u32 = 64 << 20;
/// Bytes of signatures, digests and sizes that are held of a signature header that is only looked at. One more than
/// that is reported as too large.
pub(super) const SHOWN_BYTES_MAX: u64 = 1 << 20;
/// Bytes by which a signature header may be larger than the oldest rpm reads and still be loaded: signatures that
/// will go can account for them.
pub(super) const OLD_SIGNATURES_BYTES_MAX: u32 = 1 << 20;
/// Elements of an array (rpm `lib/header.c`, `HEADER_ARRAY_MAX`, since 4.18): about a million files.
pub(super) const ARRAY_COUNT_MAX: u32 = 0x000f_ffff;
/// Bytes kept of one tag of the main header: names and digests are far shorter; a longer one is shown cut.
pub(super) const KEPT_TAG_BYTES_MAX: u64 = 1024;

/// A release of rpm, major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Release(u16, u16);

/// What a release refuses to read in a signature header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SignatureLimits {
    /// The first release that this row holds for.
    pub(super) since: Release,
    /// Entries of the index, the region included.
    pub(super) entries_max: u32,
    /// Bytes of data.
    pub(super) data_bytes_max: u32,
}

/// One row for each change, newest last.
pub(super) const TABLE: [SignatureLimits; 3] = [
    // lib/signature.c, rpmReadSignature (4.4 to 4.13: il > 32, dl > 8192); lib/header.c, hdrblobRead (4.14).
    SignatureLimits { since: Release(4, 4), entries_max: 32, data_bytes_max: 8192 },
    // lib/header.c, hdrblobRead, commit f558e8860 "Place file signatures into the signature header".
    SignatureLimits { since: Release(4, 15), entries_max: 32, data_bytes_max: 64 << 10 },
    // lib/header.c, hdrblobRead, later hdrblobVerifyLengths, commit 486579912; issue 1252.
    SignatureLimits { since: Release(4, 16), entries_max: 32, data_bytes_max: SIGNATURE_DATA_BYTES_MAX },
];

impl Release {
    /// Reads everything that any release does.
    pub(super) const NEWEST: Self = Self(u16::MAX, u16::MAX);

    /// Parses `4.14`, `4.14.3`, `6.0`; the first two numbers count.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut number = || -> Option<u16> {
            let part = parts.next()?;
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse().ok() } else { None }
        };
        let release = Self(number()?, number()?);
        let rest_is_number = parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        (rest_is_number && release >= TABLE.first()?.since).then_some(release)
    }

    /// The row that holds for this release.
    pub(super) fn limits(self) -> SignatureLimits {
        let [oldest, ..] = TABLE;
        TABLE.iter().rev().find(|row| row.since <= self).copied().unwrap_or(oldest)
    }

    /// Refuses, from its intro alone, a signature header that cannot be read by this release whatever signatures are
    /// taken out of it: nothing is allocated for it.
    ///
    /// # Errors
    /// [`Error::TooLarge`], which names the release.
    pub(super) fn check_before_loading(self, data_bytes: u32) -> Result<(), Error> {
        let limit = self.limits().data_bytes_max;
        if data_bytes <= limit.saturating_add(OLD_SIGNATURES_BYTES_MAX) {
            return Ok(());
        }
        self.check(0, usize::try_from(data_bytes).unwrap_or(usize::MAX))
    }

    /// Refuses a signature header that this release would not read.
    ///
    /// # Errors
    /// [`Error::TooLarge`], which names the release.
    pub(super) fn check(self, entries: usize, data_bytes: usize) -> Result<(), Error> {
        let limits = self.limits();
        let checks = [
            ("number of tags in the signature header", entries, limits.entries_max),
            ("size of the signature header", data_bytes, limits.data_bytes_max),
        ];
        for (what, size, limit) in checks {
            let (size, limit) = (u64::try_from(size).unwrap_or(u64::MAX), u64::from(limit));
            if size > limit {
                return Err(Error::TooLarge { what, size, limit, limit_of: self.to_string() });
            }
        }
        Ok(())
    }
}

impl core::fmt::Display for Release {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "rpm {}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_two_numbers_from_4_4_on() {
        for (text, want) in [("4.14", Release(4, 14)), ("4.14.3", Release(4, 14)), ("6.1", Release(6, 1))] {
            assert_eq!(Release::parse(text), Some(want));
        }
        for bad in ["", "4", "4.3", "4.", "4.x", "4.14.", "4.14-rc1", "+4.14", "99999999.1"] {
            assert_eq!(Release::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn each_release_has_the_limit_of_its_source() {
        let data = |text: &str| Release::parse(text).unwrap().limits().data_bytes_max;
        assert_eq!((data("4.11"), data("4.14"), data("4.15")), (8192, 8192, 65536));
        assert_eq!((data("4.16"), data("6.1")), (64 << 20, 64 << 20));
    }

    #[test]
    fn a_limit_is_inclusive_and_names_the_release() {
        let old = Release(4, 14);
        assert!(old.check(32, 8192).is_ok());
        let text = old.check(32, 8193).unwrap_err().to_string();
        assert!(text.contains("rpm 4.14") && text.contains("8193"), "{text}");
        assert!(old.check(33, 10).is_err());
    }
}
