//! With the SHA instructions of x86 (Intel's manual, volume 2, SHA256RNDS2, SHA256MSG1, SHA256MSG2). The words of a state
//! are held as those instructions want them: a, b, e, f in one register and c, d, g, h in another.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_extract_epi32, _mm_set_epi32, _mm_set_epi64x,
    _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8, _mm_shuffle_epi32,
};

/// FIPS 180-4 section 4.2.2, four words in each row.
const CONSTANTS: [[u32; 4]; 16] = [
    [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5],
    [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
    [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3],
    [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
    [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc],
    [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
    [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7],
    [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
    [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13],
    [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
    [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3],
    [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
    [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5],
    [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
    [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208],
    [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
];

/// One state and its message.
#[derive(Clone, Copy)]
struct Lane {
    abef: __m128i,
    cdgh: __m128i,
    words: [__m128i; 4],
}

/// Compresses pairs of blocks, one of each hash.
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
pub(crate) fn compress_two<'a>(
    one: &mut [u32; 8],
    other: &mut [u32; 8],
    pairs: impl Iterator<Item = (&'a [u8; 64], &'a [u8; 64])>,
) {
    let (mut one_state, mut other_state) = (load(one), load(other));
    for (one_block, other_block) in pairs {
        let (one_before, other_before) = (one_state, other_state);
        let mut a = Lane { abef: one_state.0, cdgh: one_state.1, words: message(one_block) };
        let mut b = Lane { abef: other_state.0, cdgh: other_state.1, words: message(other_block) };
        let (first, rest) = CONSTANTS.split_at(4);
        // The words of the block itself; those that follow are made of them.
        for (row, constants) in first.iter().enumerate() {
            let k = constants_of(constants);
            rounds(&mut a, row, k);
            rounds(&mut b, row, k);
        }
        for constants in rest {
            let k = constants_of(constants);
            schedule(&mut a);
            schedule(&mut b);
            rounds(&mut a, 3, k);
            rounds(&mut b, 3, k);
        }
        one_state = (_mm_add_epi32(a.abef, one_before.0), _mm_add_epi32(a.cdgh, one_before.1));
        other_state = (_mm_add_epi32(b.abef, other_before.0), _mm_add_epi32(b.cdgh, other_before.1));
    }
    store(one, one_state);
    store(other, other_state);
}

/// Four rounds with the words of one row.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn rounds(lane: &mut Lane, row: usize, constants: __m128i) {
    let [first, second, third, fourth] = lane.words;
    let words = match row {
        0 => first,
        1 => second,
        2 => third,
        _ => fourth,
    };
    let sum = _mm_add_epi32(words, constants);
    lane.cdgh = _mm_sha256rnds2_epu32(lane.cdgh, lane.abef, sum);
    lane.abef = _mm_sha256rnds2_epu32(lane.abef, lane.cdgh, _mm_shuffle_epi32::<0x0e>(sum));
}

/// The next four words of the message; they come last, and the first four go.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn schedule(lane: &mut Lane) {
    let [first, second, third, fourth] = lane.words;
    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(first, second), _mm_alignr_epi8::<4>(fourth, third));
    lane.words = [second, third, fourth, _mm_sha256msg2_epu32(sum, fourth)];
}

#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn constants_of(row: &[u32; 4]) -> __m128i {
    let [a, b, c, d] = row.map(u32::cast_signed);
    _mm_set_epi32(d, c, b, a)
}

/// The sixteen words of a block, big-endian.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn message(block: &[u8; 64]) -> [__m128i; 4] {
    let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let (halves, _) = block.as_chunks::<8>();
    let mut words = [_mm_set_epi64x(0, 0); 4];
    let (pairs, _) = halves.as_chunks::<2>();
    for (word, [low, high]) in words.iter_mut().zip(pairs) {
        let bytes = _mm_set_epi64x(i64::from_le_bytes(*high), i64::from_le_bytes(*low));
        *word = _mm_shuffle_epi8(bytes, swap);
    }
    words
}

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn load(state: &[u32; 8]) -> (__m128i, __m128i) {
    let [a, b, c, d, e, f, g, h] = state.map(u32::cast_signed);
    (_mm_set_epi32(a, b, e, f), _mm_set_epi32(c, d, g, h))
}

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn store(state: &mut [u32; 8], (abef, cdgh): (__m128i, __m128i)) {
    let words = [
        _mm_extract_epi32::<3>(abef),
        _mm_extract_epi32::<2>(abef),
        _mm_extract_epi32::<3>(cdgh),
        _mm_extract_epi32::<2>(cdgh),
        _mm_extract_epi32::<1>(abef),
        _mm_extract_epi32::<0>(abef),
        _mm_extract_epi32::<1>(cdgh),
        _mm_extract_epi32::<0>(cdgh),
    ];
    *state = words.map(i32::cast_unsigned);
}
