//! Every limit on what one process accepts from another, with its unit and its reason. Over a limit, the sender
//! gets [`crate::status::Code::LimitExceeded`] naming it; nothing is cut short silently.

/// Bytes of one gRPC message, in either direction: the largest inline content and room for the rest of a group.
pub const GRPC_MESSAGE_BYTES_MAX: usize = 6 << 20;

/// Bytes of one frame between front and signer, without its length field: a full batch with inline content, or
/// the largest certificate.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// Bytes of one frame that the worker of a token sends: a public key, names, warnings, a text. In that process runs
/// code of somebody else, and messages of many small fields take many times their length in memory.
pub const TOKEN_FRAME_BYTES_MAX: usize = 16 << 10;

/// Items of one group: one artefact has few signatures, one policy decision stays small.
pub const ITEMS_PER_GROUP_MAX: usize = 256;

/// Items of one batch from front to signer: larger ones gain nothing, and hold up what comes after.
pub const ITEMS_PER_BATCH_MAX: usize = 1024;

/// Different keys in one batch from front to signer.
pub const KEYS_PER_BATCH_MAX: usize = 32;

/// Groups that one connection may have in flight, answers outstanding.
pub const GROUPS_IN_FLIGHT_MAX: usize = 256;

/// Batches that the signer holds, waiting or in work; reading stops there, so that front feels it.
pub const BATCHES_IN_FLIGHT_MAX: usize = 256;

/// Bytes of frames that the signer holds, waiting or in work. With [`BATCHES_IN_FLIGHT_MAX`] this bounds its
/// memory whatever the peer sends.
pub const BATCH_BYTES_IN_FLIGHT_MAX: usize = 16 << 20;

/// Bytes of inline content in all items of one group or batch together: policy looks at headers, and a large RPM
/// header is a few MiB.
pub const INLINE_BYTES_MAX: usize = sealwright_crypto::tbs::INLINE_BYTES_MAX;

/// Bytes of one encoded midstate.
pub const MIDSTATE_BYTES_MAX: usize = sealwright_crypto::midstate::ENCODED_BYTES_MAX;

/// Salts of one request for them; more are for the next.
pub const SALTS_MAX: usize = 1024;

/// Bytes of one ticket for a salt: the longest name of a principal, and the fields around it.
pub const TICKET_BYTES_MAX: usize = 512;

/// Bytes of one signature packet: RSA-8192 takes about 1.1 KiB, post-quantum ones 5 KiB.
pub const SIGNATURE_BYTES_MAX: usize = 8 << 10;

/// Bytes of a key's name.
pub const KEY_NAME_BYTES_MAX: usize = 255;

/// Bytes of the text by which a request names a key: a name, or a fingerprint in hexadecimal with spaces.
pub const KEY_REFERENCE_BYTES_MAX: usize = 255;

/// Bytes of the name that an installation gives to a token.
pub const TOKEN_NAME_BYTES_MAX: usize = 64;

/// Bytes of a CKA_LABEL or CKA_ID by which a key on a token is named: longer ones are met on no token.
pub const TOKEN_OBJECT_BYTES_MAX: usize = 255;

/// Bytes of a user id; longer ones are met in no keyring, and verifiers truncate them.
pub const USER_ID_BYTES_MAX: usize = 1024;

/// Bytes of an algorithm's name.
pub const ALGORITHM_NAME_BYTES_MAX: usize = 32;

/// Bytes of a file name without directories (NAME_MAX of Linux).
pub const FILE_NAME_BYTES_MAX: usize = 255;

/// Bytes of a transferable public key: certificates with many foreign signatures reach some hundred KiB.
pub const CERTIFICATE_BYTES_MAX: usize = 1 << 20;

/// Bytes of a key file at import, armored, before and after encryption.
pub const IMPORT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a passphrase at import.
pub const PASSPHRASE_BYTES_MAX: usize = 4096;

/// Bytes of a project key: what `obs` takes too. RSA-8192 takes about 5 KiB.
pub const PROJECT_KEY_BYTES_MAX: usize = 16 << 10;

/// Bytes of a sealed blob: two RSA-8192 keys with their public halves take about 12 KiB.
pub const SEALED_BYTES_MAX: usize = 32 << 10;

/// Usages of one key; there are eight in all.
pub const USAGES_MAX: usize = 8;

/// Bytes of the text of a failure on the wire.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// Warnings about one key.
pub const WARNINGS_MAX: usize = 64;

/// Warnings that the worker of a token has about one key: there are two that it knows.
pub const TOKEN_WARNINGS_MAX: usize = 16;

/// Keys of one page of a listing. With their certificates they must fit a message, so fewer may come.
pub const KEYS_PER_PAGE_MAX: u32 = 100;

/// Milliseconds that the server waits when the client names no deadline, and that our client waits in all for one
/// request: its retries do not begin after them.
pub const DEADLINE_MS_DEFAULT: u32 = 60_000;

/// Milliseconds that a client may ask the server to wait: longer waits belong into its own retries.
pub const DEADLINE_MS_MAX: u32 = 300_000;

/// Seconds of validity of a new certificate: OpenPGP stores it in 32 bits (RFC 9580 section 5.2.3.13).
pub const VALIDITY_S_MAX: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Field tags and lengths around one item: far less than this many bytes.
    const ITEM_OVERHEAD: usize = 64;

    #[test]
    fn the_largest_group_fits_a_message() {
        let items = ITEMS_PER_GROUP_MAX * (MIDSTATE_BYTES_MAX + TICKET_BYTES_MAX + ITEM_OVERHEAD);
        assert!(items + INLINE_BYTES_MAX + 4096 <= GRPC_MESSAGE_BYTES_MAX);
        const { assert!(SALTS_MAX * (TICKET_BYTES_MAX + ITEM_OVERHEAD) <= GRPC_MESSAGE_BYTES_MAX) };
        const { assert!(ITEMS_PER_GROUP_MAX * (SIGNATURE_BYTES_MAX + ITEM_OVERHEAD) <= GRPC_MESSAGE_BYTES_MAX) };
    }

    #[test]
    fn the_largest_batch_fits_a_frame_and_a_frame_fits_the_signer() {
        let items = ITEMS_PER_BATCH_MAX * (MIDSTATE_BYTES_MAX + ITEM_OVERHEAD);
        let keys = KEYS_PER_BATCH_MAX * (SEALED_BYTES_MAX + ITEM_OVERHEAD);
        assert!(items + keys + INLINE_BYTES_MAX <= FRAME_BYTES_MAX);
        const { assert!(CERTIFICATE_BYTES_MAX + SEALED_BYTES_MAX + 4096 <= FRAME_BYTES_MAX) };
        const { assert!(FRAME_BYTES_MAX <= BATCH_BYTES_IN_FLIGHT_MAX) };
    }

    #[test]
    fn the_limits_are_those_of_the_documentation() {
        let text = include_str!("../../../docs/WIRE.md");
        for row in [
            format!("| gRPC message | {GRPC_MESSAGE_BYTES_MAX} bytes |"),
            format!("| frame between front and signer | {FRAME_BYTES_MAX} bytes |"),
            format!("| items of a group | {ITEMS_PER_GROUP_MAX} |"),
            format!(
                "| items, and keys, of a batch from front to signer | {ITEMS_PER_BATCH_MAX}, {KEYS_PER_BATCH_MAX} |"
            ),
            format!("| groups in flight on a connection | {GROUPS_IN_FLIGHT_MAX} |"),
            format!(
                "| requests, and their bytes, held by the signer | {BATCHES_IN_FLIGHT_MAX}, {BATCH_BYTES_IN_FLIGHT_MAX} |"
            ),
            format!("| inline content of a group or batch | {INLINE_BYTES_MAX} bytes |"),
            format!("| midstate | {MIDSTATE_BYTES_MAX} bytes |"),
            format!("| salts of a request, ticket | {SALTS_MAX}, {TICKET_BYTES_MAX} bytes |"),
            format!("| signature packet | {SIGNATURE_BYTES_MAX} bytes |"),
            format!("| name of a key | {KEY_NAME_BYTES_MAX} bytes |"),
            format!("| user id | {USER_ID_BYTES_MAX} bytes |"),
            format!("| file name in a claim | {FILE_NAME_BYTES_MAX} bytes |"),
            format!(
                "| certificate, key file at import | {CERTIFICATE_BYTES_MAX}, {IMPORT_BYTES_MAX} bytes |"
            ),
            format!("| passphrase at import | {PASSPHRASE_BYTES_MAX} bytes |"),
            format!("| project key | {PROJECT_KEY_BYTES_MAX} bytes |"),
            format!("| sealed key | {SEALED_BYTES_MAX} bytes |"),
            format!("| usages of a key | {USAGES_MAX} |"),
            format!("| text of a failure | {MESSAGE_BYTES_MAX} bytes |"),
            format!("| keys of a page | {KEYS_PER_PAGE_MAX} |"),
            format!("| deadline: default, most | {DEADLINE_MS_DEFAULT}, {DEADLINE_MS_MAX} ms |"),
            format!("| validity of a certificate | {VALIDITY_S_MAX} s |"),
        ] {
            assert!(text.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_group_fits_a_batch() {
        const { assert!(ITEMS_PER_GROUP_MAX <= ITEMS_PER_BATCH_MAX) };
    }
}
