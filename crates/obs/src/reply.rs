//! Replies. All lengths are 16 bits, big-endian; the server closes after the last byte, and nothing else marks the end.
//!
//! ```text
//! status(2) len(2) len(2) results text
//! results of an old request: the one result, bare; of a new one: count(2), count lengths (2 each), the results
//! none (ping): empty in every form
//! ```
//!
//! A status other than 0 comes without results, and with a text that ends in a line end. A text with status 0 is a
//! warning; upstream's client prints it and goes on.

use core::fmt::{self, Write as _};

use crate::bytes::Reader;
use crate::error::Error;
use crate::limits::{REPLY_HEAD_BYTES, REPLY_PART_BYTES_MAX, TEXT_BYTES_MAX};
use crate::refusal::Refusal;
use crate::request::Form;

/// The status of every refusal.
const REFUSED: u16 = 1;
/// Stands where a text was cut.
const CUT: &str = "...";

/// A reply whose parts fit their lengths.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    status: u16,
    results: Vec<u8>,
    text: Vec<u8>,
}

impl Reply {
    /// Success, in the form of the request. Nothing is ever cut to fit.
    ///
    /// # Errors
    /// [`Refusal::ReplyTooLarge`]; [`Refusal::ResultCount`] where the form has no room for that many: a ping has none, the
    /// old form one.
    pub fn ok<R: AsRef<[u8]>>(form: Form, results: &[R]) -> Result<Self, Refusal> {
        let bytes = results.iter().map(|result| result.as_ref().len()).fold(0, usize::saturating_add);
        room(form, results.len(), bytes)?;
        let mut out = Vec::new();
        if form == Form::New && !results.is_empty() {
            out.extend(length(results.len()));
            out.extend(results.iter().flat_map(|result| length(result.as_ref().len())));
        }
        out.extend(results.iter().flat_map(|result| result.as_ref().iter().copied()));
        Ok(Self { status: 0, results: out, text: Vec::new() })
    }

    /// Would that many results of up to that many bytes each fit? Ask before anything is signed for them.
    ///
    /// # Errors
    /// As [`Self::ok`].
    pub fn would_fit(form: Form, results: usize, each_max: usize) -> Result<(), Refusal> {
        room(form, results, results.saturating_mul(each_max))
    }

    /// A refusal. The text gets its line end; control characters become spaces, and one above
    /// [`TEXT_BYTES_MAX`] is cut, with dots where it was.
    #[must_use]
    pub fn refused(reason: &impl fmt::Display) -> Self {
        Self { status: REFUSED, results: Vec::new(), text: line(reason) }
    }

    /// The same reply with a warning, which clients print.
    #[must_use]
    pub fn with_warning(mut self, warning: &impl fmt::Display) -> Self {
        self.text = line(warning);
        self
    }

    /// Everything that a server sent until it closed.
    ///
    /// # Errors
    /// [`Error::EmptyReply`], [`Error::ReplySize`]; [`Error::Malformed`] for a failure that has results.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Err(Error::EmptyReply);
        }
        let mut reader = Reader(bytes);
        let head = (reader.u16(), reader.u16(), reader.u16());
        let (Some(status), Some(results), Some(text)) = head else {
            return Err(Error::malformed("reply", "it is shorter than its head"));
        };
        let (results, text) = (usize::from(results), usize::from(text));
        if reader.0.len() != results.saturating_add(text) {
            return Err(Error::ReplySize { have: bytes.len(), results, text });
        }
        if status != 0 && results != 0 {
            return Err(Error::malformed("reply", "it is a failure and has results"));
        }
        let (results, text) = reader.0.split_at_checked(results).unwrap_or_default();
        Ok(Self { status, results: results.to_vec(), text: text.to_vec() })
    }

    /// The bytes on the wire: for a reply that was parsed, those that came.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(
            REPLY_HEAD_BYTES.saturating_add(self.results.len()).saturating_add(self.text.len()),
        );
        out.extend(self.status.to_be_bytes());
        out.extend(length(self.results.len()));
        out.extend(length(self.text.len()));
        out.extend(&self.results);
        out.extend(&self.text);
        out
    }

    /// 0 is success; upstream's client exits with anything else.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// What the server says, to be shown: control characters but line ends became spaces.
    #[must_use]
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.text);
        text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
    }

    /// The results of a request in this form, which must be that many.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server refused; [`Error::Malformed`] for another number of results, or lengths that
    /// do not add up.
    pub fn results(&self, form: Form, expected: usize) -> Result<Vec<&[u8]>, Error> {
        let results = self.all_results(form)?;
        if results.len() == expected {
            Ok(results)
        } else {
            Err(Error::malformed("reply", "it has another number of results than was asked for"))
        }
    }

    /// The results of a request in this form, however many.
    ///
    /// # Errors
    /// As [`Self::results`], but for their number.
    pub fn all_results(&self, form: Form) -> Result<Vec<&[u8]>, Error> {
        if self.status != 0 {
            return Err(Error::Refused { status: self.status, text: self.text() });
        }
        match form {
            Form::OldPing | Form::Old | Form::New if self.results.is_empty() => Ok(Vec::new()),
            Form::OldPing | Form::Old => Ok(vec![self.results.as_slice()]),
            Form::New => self.counted(),
        }
    }

    fn counted(&self) -> Result<Vec<&[u8]>, Error> {
        let short = || Error::malformed("reply", "it is shorter than its table of results");
        let mut reader = Reader(&self.results);
        let count = usize::from(reader.u16().ok_or_else(short)?);
        let table = reader.take(count.saturating_mul(2)).ok_or_else(short)?;
        let lengths = table.as_chunks::<2>().0.iter().map(|pair| usize::from(u16::from_be_bytes(*pair)));
        let wrong = || Error::malformed("reply", "the lengths of its results do not add up");
        let results = lengths.map(|len| reader.take(len).ok_or_else(wrong)).collect::<Result<Vec<_>, _>>()?;
        if reader.0.is_empty() { Ok(results) } else { Err(wrong()) }
    }
}

/// Without the results: a key that was made has its secret half among them, if encrypted.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .field("result_bytes", &self.results.len())
            .field("text", &self.text())
            .finish()
    }
}

/// `bytes` are those of the results alone.
fn room(form: Form, results: usize, bytes: usize) -> Result<(), Refusal> {
    let fits = match form {
        Form::OldPing => results == 0,
        Form::Old => results <= 1,
        Form::New => u16::try_from(results).is_ok(),
    };
    if !fits {
        return Err(Refusal::ResultCount { results });
    }
    let table = if form == Form::New { results.saturating_mul(2).saturating_add(2) } else { 0 };
    let bytes = bytes.saturating_add(table);
    if bytes > REPLY_PART_BYTES_MAX {
        return Err(Refusal::ReplyTooLarge { results, bytes });
    }
    Ok(())
}

/// One line of at most [`TEXT_BYTES_MAX`] bytes, its end included.
fn line(reason: &impl fmt::Display) -> Vec<u8> {
    let mut text = String::new();
    // Writing into a String does not fail; a Display that does leaves what it wrote.
    let _ = write!(text, "{reason}");
    let mut text: String = text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let room = TEXT_BYTES_MAX.saturating_sub(1);
    if text.len() > room {
        text.truncate(text.floor_char_boundary(room.saturating_sub(CUT.len())));
        text.push_str(CUT);
    }
    text.push('\n');
    text.into_bytes()
}

/// A length that was checked against [`REPLY_PART_BYTES_MAX`].
fn length(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_back_in_the_form_in_which_they_were_written() {
        for (form, results) in [
            (Form::OldPing, vec![]),
            (Form::Old, vec![&b"one"[..]]),
            (Form::New, vec![]),
            (Form::New, vec![&b"one"[..]]),
            (Form::New, vec![&b"one"[..], b"", b"three"]),
        ] {
            let reply = Reply::parse(&Reply::ok(form, &results).unwrap().to_bytes()).unwrap();
            assert_eq!(reply.results(form, results.len()).unwrap(), results);
            for other in (0..5).filter(|other| *other != results.len()) {
                assert!(reply.results(form, other).is_err(), "{form:?} {other}");
            }
        }
    }

    #[test]
    fn results_of_65535_bytes_fit_and_one_byte_more_is_refused() {
        assert!(Reply::ok(Form::Old, &[vec![0; 65_535]]).is_ok());
        assert_eq!(
            Reply::ok(Form::Old, &[vec![0; 65_536]]),
            Err(Refusal::ReplyTooLarge { results: 1, bytes: 65_536 })
        );
        assert!(Reply::ok(Form::New, &[vec![0; 65_531]]).is_ok());
        assert_eq!(
            Reply::ok(Form::New, &[vec![0; 65_532]]),
            Err(Refusal::ReplyTooLarge { results: 1, bytes: 65_536 })
        );
        assert!(Reply::would_fit(Form::New, 225, 280).is_ok());
        assert_eq!(
            Reply::would_fit(Form::New, 240, 280).unwrap_err().to_string(),
            "240 results have up to 67682 bytes, and one reply holds 65535; ask for fewer at once"
        );
        assert!(Reply::would_fit(Form::New, usize::MAX, usize::MAX).is_err());
    }

    #[test]
    fn a_form_takes_only_as_many_results_as_it_can_say() {
        assert_eq!(Reply::ok(Form::OldPing, &[b"x"]), Err(Refusal::ResultCount { results: 1 }));
        assert_eq!(Reply::ok(Form::Old, &[b"x", b"y"]), Err(Refusal::ResultCount { results: 2 }));
    }

    #[test]
    fn a_refusal_is_one_line_with_status_1() {
        let reply = Reply::refused(&"unknown key: a\nb\n");
        assert_eq!(reply.to_bytes(), b"\x00\x01\x00\x00\x00\x11unknown key: a b\n");
        let refused = Reply::parse(&reply.to_bytes()).unwrap().results(Form::New, 1).unwrap_err();
        assert_eq!(refused.to_string(), "unknown key: a b");
    }

    #[test]
    fn a_text_above_its_limit_is_cut_at_a_character() {
        let reply = Reply::refused(&"\u{e9}".repeat(40_000));
        let text = reply.text();
        assert!(text.len() <= TEXT_BYTES_MAX && text.len() > TEXT_BYTES_MAX - 4, "{}", text.len());
        assert!(text.ends_with("\u{e9}...\n"));
        let whole = "x".repeat(TEXT_BYTES_MAX - 1);
        assert_eq!(Reply::refused(&whole).text(), format!("{whole}\n"));
    }

    #[test]
    fn a_warning_does_not_make_a_failure() {
        let reply = Reply::ok(Form::Old, &[b"x"]).unwrap().with_warning(&"old hash");
        let reply = Reply::parse(&reply.to_bytes()).unwrap();
        assert_eq!((reply.status(), reply.text().as_str()), (0, "old hash\n"));
        assert_eq!(reply.results(Form::Old, 1).unwrap(), [b"x"]);
    }

    #[test]
    fn replies_whose_lengths_lie_are_refused() {
        assert_eq!(Reply::parse(b""), Err(Error::EmptyReply));
        for bad in [&b"\0\0\0\0\0"[..], b"\0\0\0\x01\0\0", b"\0\0\0\0\0\0x", b"\0\x01\0\x01\0\0x"] {
            assert!(Reply::parse(bad).is_err(), "{bad:?}");
        }
        for (bad, count) in [
            (&b"\x00"[..], 1),
            (b"\x00\x01", 1),
            (b"\x00\x01\x00\x02x", 1),
            (b"\x00\x01\x00\x00x", 1),
            (b"\xff\xff\x00\x00", 65_535),
            (b"\x00\x00", 1),
        ] {
            let mut bytes = vec![0, 0, 0, u8::try_from(bad.len()).unwrap(), 0, 0];
            bytes.extend(bad);
            let reply = Reply::parse(&bytes).unwrap();
            assert!(reply.results(Form::New, count).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_a_server_says_cannot_move_the_cursor() {
        let reply = Reply::parse(b"\0\x01\0\0\0\x05\x1b[2J\n").unwrap();
        assert_eq!(reply.text(), " [2J\n");
    }
}
