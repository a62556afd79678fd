//! Writes packages of any size without rpmbuild: valid for rpm, unsigned, the same bytes each time. The payload is an
//! archive that is not compressed, so that sizes are exact.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use md5::{Digest as _, Md5};
use sha1::Sha1;
use sha2::Sha256;

use super::header::{Value, encode};
use crate::Result;
use crate::error::Error;

const LEAD_BYTES: usize = 96;
/// What rpmbuild reserves for signatures.
const RESERVED_BYTES: usize = 4128;
/// What MD5 takes in a signature header: an index entry and the digest.
const MD5_BYTES: usize = 32;
/// Content of large files repeats after so many bytes.
const CONTENT_BYTES: usize = 1 << 20;
const MTIME: u32 = 1_700_000_000;
const REGULAR: u16 = 0o100_644;

/// What is to be written.
pub(super) struct Spec {
    /// Name of the package; it decides about the content too.
    pub(super) name: String,
    /// Bytes of its files.
    pub(super) files: Vec<u32>,
}

/// First parts of a package, of the same length: everything that a signature over the header changes.
pub(super) struct Heads {
    /// With the digest MD5 of header and payload, as packages have.
    pub(super) usual: Vec<u8>,
    /// Without it, as packages of builders in FIPS mode.
    pub(super) without_md5: Vec<u8>,
}

impl Spec {
    /// A package of about `bytes` in all.
    pub(super) fn of_size(name: String, bytes: u64, files: u64) -> Self {
        let header = 5_400_u64.saturating_add(files.saturating_mul(260));
        let content = bytes.saturating_sub(header).max(files);
        let each = content.checked_div(files).unwrap_or(content);
        let each = u32::try_from(each).unwrap_or(u32::MAX);
        Self { name, files: (0..files).map(|_| each).collect() }
    }

    /// Writes it, in the usual form.
    pub(super) fn write(&self, path: &Path) -> Result<Heads> {
        let payload = Payload::of(self);
        let mut digest = Sha256::new();
        let mut payload_bytes = 0_u64;
        payload
            .each(&mut |chunk| {
                digest.update(chunk);
                payload_bytes = payload_bytes.saturating_add(length(chunk));
                Ok(())
            })
            .map_err(Error::file(path))?;
        let main = self.main_header(&hex(&digest.finalize()));
        let mut md5 = Md5::new_with_prefix(&main);
        let hashed = payload.each(&mut |chunk| {
            md5.update(chunk);
            Ok(())
        });
        hashed.map_err(Error::file(path))?;
        let heads = Heads {
            usual: self.head(&main, payload_bytes, Some(md5.finalize().to_vec())),
            without_md5: self.head(&main, payload_bytes, None),
        };
        let write = || -> io::Result<()> {
            let mut file = BufWriter::with_capacity(CONTENT_BYTES, fs::File::create(path)?);
            file.write_all(&heads.usual)?;
            file.write_all(&main)?;
            payload.each(&mut |chunk| file.write_all(chunk))?;
            file.flush()
        };
        write().map_err(Error::file(path))?;
        Ok(heads)
    }

    /// Lead and signature header, padded.
    fn head(&self, main: &[u8], payload_bytes: u64, md5: Option<Vec<u8>>) -> Vec<u8> {
        let whole = length(main).saturating_add(payload_bytes);
        let size = u32::try_from(whole).unwrap_or(u32::MAX);
        let archive = u32::try_from(payload_bytes).unwrap_or(u32::MAX);
        let mut entries = vec![
            (269, Value::Text(hex(&Sha1::digest(main)))),
            (273, Value::Text(hex(&Sha256::digest(main)))),
            (1000, Value::Int32(vec![size])),
        ];
        let reserved = if md5.is_some() { RESERVED_BYTES } else { RESERVED_BYTES.saturating_add(MD5_BYTES) };
        entries.extend(md5.map(|md5| (1004, Value::Bytes(md5))));
        entries.push((1007, Value::Int32(vec![archive])));
        entries.push((1008, Value::Bytes(vec![0; reserved])));
        let mut head = self.lead();
        head.extend(encode(62, &entries));
        head.resize(head.len().next_multiple_of(8), 0);
        head
    }

    fn lead(&self) -> Vec<u8> {
        let mut lead = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1];
        let name = format!("{}-1-1", self.name);
        lead.extend(name.bytes().take(65));
        lead.resize(76, 0);
        // Operating system Linux, signature type 5.
        lead.extend([0, 1, 0, 5]);
        lead.resize(LEAD_BYTES, 0);
        lead
    }

    fn main_header(&self, payload_digest: &str) -> Vec<u8> {
        let count = self.files.len();
        let each = |value: &str| Value::Texts(vec![value.to_owned(); count]);
        let numbers = |value: u32| Value::Int32(vec![value; count]);
        let text = |value: &str| Value::Text(value.to_owned());
        let texts = |values: &[&str]| Value::Texts(values.iter().map(|value| (*value).to_owned()).collect());
        let total = self.files.iter().fold(0_u32, |sum, size| sum.saturating_add(*size));
        let inodes = (1..).take(count).collect();
        let digests = (0..count).map(|at| self.file_digest(at)).collect();
        let entries = vec![
            (100, texts(&["C"])),
            (1000, text(&self.name)),
            (1001, text("1")),
            (1002, text("1")),
            (1004, Value::Translated("Content for a bench".to_owned())),
            (1005, Value::Translated("Bytes without a meaning.".to_owned())),
            (1006, Value::Int32(vec![MTIME])),
            (1007, text("bench.invalid")),
            (1009, Value::Int32(vec![total])),
            (1014, text("CC0-1.0")),
            (1016, Value::Translated("Unspecified".to_owned())),
            (1021, text("linux")),
            (1022, text("noarch")),
            (1028, Value::Int32(self.files.clone())),
            (1030, Value::Int16(vec![REGULAR; count])),
            (1033, Value::Int16(vec![0; count])),
            (1034, numbers(MTIME)),
            (1035, Value::Texts(digests)),
            (1036, each("")),
            (1037, numbers(0)),
            (1039, each("root")),
            (1040, each("root")),
            (1044, text(&format!("{}-1-1.src.rpm", self.name))),
            (1045, numbers(u32::MAX)),
            (1047, texts(&[&self.name])),
            (1048, Value::Int32(vec![0x0100_000a; 3])),
            (
                1049,
                texts(&[
                    "rpmlib(CompressedFileNames)",
                    "rpmlib(FileDigests)",
                    "rpmlib(PayloadFilesHavePrefix)",
                ]),
            ),
            (1050, texts(&["3.0.4-1", "4.6.0-1", "4.0-1"])),
            (1064, text("4.18.0")),
            (1095, numbers(1)),
            (1096, Value::Int32(inodes)),
            (1097, each("")),
            (1112, Value::Int32(vec![8])),
            (1113, texts(&["1-1"])),
            (1116, numbers(0)),
            (1117, Value::Texts((0..count).map(|at| self.base_name(at)).collect())),
            (1118, texts(&["/usr/share/bench/"])),
            (1124, text("cpio")),
            (5011, Value::Int32(vec![8])),
            (5092, texts(&[payload_digest])),
            (5093, Value::Int32(vec![8])),
            (5097, texts(&[payload_digest])),
        ];
        encode(63, &entries)
    }

    fn base_name(&self, at: usize) -> String {
        format!("{}-{at:04}", self.name)
    }

    fn file_digest(&self, at: usize) -> String {
        let mut digest = Sha256::new();
        let size = self.files.get(at).copied().unwrap_or_default();
        // Nothing here can fail.
        let _ = Payload::of(self).content(size, at, &mut |chunk| {
            digest.update(chunk);
            Ok(())
        });
        hex(&digest.finalize())
    }
}

/// Takes the bytes of a payload in order.
type Sink<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// The archive: cpio of the kind `newc`.
struct Payload<'a> {
    spec: &'a Spec,
    block: Vec<u8>,
}

impl<'a> Payload<'a> {
    fn of(spec: &'a Spec) -> Self {
        let seed = Sha256::digest(spec.name.as_bytes());
        let mut state =
            seed.iter().fold(1_u64, |state, byte| state.wrapping_mul(257).wrapping_add((*byte).into()));
        let longest = spec.files.iter().copied().max().unwrap_or(0);
        let block_bytes = usize::try_from(longest).unwrap_or(CONTENT_BYTES).clamp(8, CONTENT_BYTES);
        let mut block = Vec::with_capacity(CONTENT_BYTES);
        while block.len() < block_bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.extend(state.to_le_bytes());
        }
        Self { spec, block }
    }

    fn each(&self, sink: &mut Sink<'_>) -> io::Result<()> {
        for (at, size) in self.spec.files.iter().enumerate() {
            let name = format!("./usr/share/bench/{}", self.spec.base_name(at));
            sink(&member(at, *size, &name))?;
            self.content(*size, at, sink)?;
            sink(padding(*size))?;
        }
        sink(&member(0, 0, "TRAILER!!!"))
    }

    /// Bytes of one file.
    fn content(&self, size: u32, at: usize, sink: &mut Sink<'_>) -> io::Result<()> {
        let mut left = usize::try_from(size).unwrap_or(usize::MAX);
        let mut from = at.saturating_mul(4_099).checked_rem(self.block.len()).unwrap_or(0);
        while left > 0 {
            let rest = self.block.get(from..).unwrap_or_default();
            let chunk = rest.get(..left.min(rest.len())).unwrap_or_default();
            sink(chunk)?;
            left = left.saturating_sub(chunk.len());
            from = 0;
        }
        Ok(())
    }
}

/// The header of a file in the archive, with its name.
fn member(at: usize, size: u32, name: &str) -> Vec<u8> {
    let name_bytes = name.len().saturating_add(1);
    let inode = at.saturating_add(1);
    let mut member = format!(
        "070701{inode:08x}{REGULAR:08x}{:08x}{:08x}{:08x}{MTIME:08x}{size:08x}{:08x}{:08x}{:08x}{:08x}{name_bytes:08x}{:08x}{name}\0",
        0, 0, 1, 0, 1, 0, 0, 0
    )
    .into_bytes();
    member.resize(member.len().next_multiple_of(4), 0);
    member
}

fn padding(size: u32) -> &'static [u8] {
    let over = usize::try_from(size % 4).unwrap_or(0);
    let zeros: &[u8] = &[0; 4];
    if over == 0 { &[] } else { zeros.get(over..).unwrap_or_default() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
