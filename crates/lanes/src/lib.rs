//! Two independent SHA-256 at once on one core. The processor's instruction for two rounds takes four cycles and can be
//! begun every second cycle: one hash leaves half of the unit idle, two of them share it. A package that is signed over
//! header and payload needs two hashes of the same bytes.
//!
//! What this crate refuses to do: anything but compressing blocks (FIPS 180-4 section 6.2.2). Padding, lengths and states
//! are in `sealwright-crypto`, which uses its own function for one hash where there is none for two.

#[cfg(target_arch = "x86_64")]
mod sha_ni;

/// Compresses as many blocks of both as there are of each, if this processor can do two at once; returns how many. The
/// caller does the rest: those beyond, or all of them where it returns 0.
pub fn compress_two(
    one: &mut [u32; 8],
    one_blocks: &[[u8; 64]],
    other: &mut [u32; 8],
    other_blocks: &[[u8; 64]],
) -> usize {
    let pairs = one_blocks.len().min(other_blocks.len());
    #[cfg(target_arch = "x86_64")]
    if is_available() {
        let blocks = one_blocks.iter().zip(other_blocks);
        #[expect(
            unsafe_code,
            reason = "only the call of a function for some processors: this is one of them"
        )]
        // SAFETY: `is_available` has just found all features that the function is compiled for.
        unsafe {
            sha_ni::compress_two(one, other, blocks);
        }
        return pairs;
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (one, other, pairs);
    0
}

#[cfg(target_arch = "x86_64")]
fn is_available() -> bool {
    std::arch::is_x86_feature_detected!("sha")
        && std::arch::is_x86_feature_detected!("ssse3")
        && std::arch::is_x86_feature_detected!("sse4.1")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_at_once_are_what_each_is_alone(
            one_state in any::<[u32; 8]>(),
            other_state in any::<[u32; 8]>(),
            bytes in prop::collection::vec(any::<u8>(), 0..1_000),
            shift in 0_usize..64,
        ) {
            let (one_blocks, _) = bytes.as_chunks::<64>();
            let (other_blocks, _) = bytes.get(shift..).unwrap_or_default().as_chunks::<64>();
            let (mut one, mut other) = (one_state, other_state);
            let done = compress_two(&mut one, one_blocks, &mut other, other_blocks);
            prop_assert!(done == 0 || done == one_blocks.len().min(other_blocks.len()));
            let (mut one_alone, mut other_alone) = (one_state, other_state);
            sha2::block_api::compress256(&mut one_alone, &one_blocks[..done]);
            sha2::block_api::compress256(&mut other_alone, &other_blocks[..done]);
            prop_assert_eq!((one, other), (one_alone, other_alone));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_processor_with_sha_instructions_does_two_at_once() {
        let blocks = [[1; 64]; 3];
        let done = compress_two(&mut [0; 8], &blocks, &mut [1; 8], &blocks[..2]);
        assert_eq!(done, if is_available() { 2 } else { 0 });
    }
}
