//! The little arithmetic between OpenPGP's RSA numbers and PKCS#1's (RFC 8017 section 3.2): `d mod (p - 1)` and
//! `d mod (q - 1)`. Used at import only, so it may be slow; aws-lc then checks all numbers against each other.

use zeroize::Zeroizing;

/// The secret numbers of an OpenPGP RSA key, big-endian.
pub(crate) struct PrivateNumbers<'a> {
    pub(crate) d: &'a [u8],
    pub(crate) p: &'a [u8],
    pub(crate) q: &'a [u8],
    /// `p^-1 mod q`
    pub(crate) u: &'a [u8],
}

/// `d` modulo each prime less one.
pub(super) struct CrtExponents {
    pub(super) mod_p: Zeroizing<Vec<u8>>,
    pub(super) mod_q: Zeroizing<Vec<u8>>,
}

/// `None` if a prime is 0 or 1.
pub(super) fn crt_exponents(numbers: &PrivateNumbers<'_>) -> Option<CrtExponents> {
    Some(CrtExponents {
        mod_p: remainder(numbers.d, &less_one(numbers.p)?)?,
        mod_q: remainder(numbers.d, &less_one(numbers.q)?)?,
    })
}

fn less_one(number: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut out = Zeroizing::new(number.to_vec());
    for byte in out.iter_mut().rev() {
        let (less, borrow) = byte.overflowing_sub(1);
        *byte = less;
        if !borrow {
            return Some(out);
        }
    }
    None
}

/// `number mod modulus`, bit by bit: the remainder is doubled, takes the next bit, and is reduced. It has one byte
/// more than the modulus, so that doubling cannot overflow.
fn remainder(number: &[u8], modulus: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    if modulus.iter().all(|byte| *byte == 0) {
        return None;
    }
    let modulus = Zeroizing::new([&[0], modulus].concat());
    let mut rest = Zeroizing::new(vec![0; modulus.len()]);
    for byte in number {
        for bit in (0..8).rev() {
            double(&mut rest, byte >> bit & 1);
            if rest.as_slice() >= modulus.as_slice() {
                subtract(&mut rest, &modulus);
            }
        }
    }
    Some(rest)
}

fn double(number: &mut [u8], mut carry: u8) {
    for byte in number.iter_mut().rev() {
        let high = *byte >> 7;
        *byte = *byte << 1 | carry;
        carry = high;
    }
}

fn subtract(number: &mut [u8], other: &[u8]) {
    let mut borrow = false;
    for (byte, other) in number.iter_mut().zip(other).rev() {
        let (less, first) = byte.overflowing_sub(*other);
        let (less, second) = less.overflowing_sub(u8::from(borrow));
        *byte = less;
        borrow = first || second;
    }
}

/// Modulus and exponent of a DER `RSAPublicKey` (RFC 8017 appendix A.1.1), which aws-lc wrote.
pub(super) fn parse_pkcs1_public(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, rest) = take_der(0x30, der)?;
    let (n, inner) = take_der(0x02, sequence)?;
    let (e, end) = take_der(0x02, inner)?;
    (rest.is_empty() && end.is_empty()).then(|| (without_sign(n), without_sign(e)))
}

/// The numbers of a PKCS#8 RSA key (RFC 5958 section 2; RFC 8017 appendix A.1.2), which aws-lc wrote, as OpenPGP has them: its
/// primes are exchanged, so that PKCS#1's inverse of the second modulo the first is u.
pub(super) fn parse_pkcs8(der: &[u8]) -> Option<PrivateNumbers<'_>> {
    let (info, _) = take_der(0x30, der)?;
    let (_, info) = take_der(0x02, info)?;
    let (_, info) = take_der(0x30, info)?;
    let (key, _) = take_der(0x04, info)?;
    let (mut fields, _) = take_der(0x30, key)?;
    let mut numbers = [&[][..]; 9];
    for number in &mut numbers {
        let (field, rest) = take_der(0x02, fields)?;
        *number = without_sign(field);
        fields = rest;
    }
    let [_, _, _, d, p, q, _, _, u] = numbers;
    Some(PrivateNumbers { d, p: q, q: p, u })
}

/// DER puts a zero byte before a number whose first bit is set.
fn without_sign(number: &[u8]) -> &[u8] {
    number.strip_prefix(&[0]).unwrap_or(number)
}

fn take_der(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => {
            let (&len, rest) = rest.split_first()?;
            (usize::from(len), rest)
        }
        0x82 => {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*len)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: &[u8]) -> u128 {
        bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
    }

    #[test]
    fn remainders_are_those_of_integers() {
        let numbers = [0_u128, 1, 2, 255, 256, 65_537, 0xffff_ffff, 0x0123_4567_89ab_cdef, u128::MAX >> 8];
        for number in numbers {
            for modulus in numbers.into_iter().filter(|modulus| *modulus > 0) {
                let got = remainder(&number.to_be_bytes(), &modulus.to_be_bytes()).unwrap();
                assert_eq!(value(&got), number % modulus, "{number} mod {modulus}");
            }
        }
        assert!(remainder(&[5], &[0, 0]).is_none());
    }

    #[test]
    fn less_one_borrows_and_stops_at_zero() {
        assert_eq!(less_one(&[1, 0, 0]).unwrap().as_slice(), &[0, 0xff, 0xff]);
        assert!(less_one(&[0, 0]).is_none());
        assert!(less_one(&[]).is_none());
    }

    #[test]
    fn der_that_is_cut_is_refused() {
        let der = [0x30, 0x08, 0x02, 0x03, 0x00, 0x80, 0x01, 0x02, 0x01, 0x03];
        assert_eq!(parse_pkcs1_public(&der), Some((&[0x80, 0x01][..], &[3][..])));
        for len in 0..der.len() {
            assert!(parse_pkcs1_public(&der[..len]).is_none(), "{len}");
        }
    }
}
