//! Random order and random waits, so that many clients do not all do the same at the same moment. Nothing secret
//! hangs on it.

/// A number below `bound`; 0 for 0. If the kernel gives no random bytes, 0: order and jitter are a courtesy.
pub(crate) fn below(bound: u64) -> u64 {
    let mut bytes = [0u8; 8];
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(8) => u64::from_le_bytes(bytes).checked_rem(bound).unwrap_or(0),
        Ok(_) | Err(_) => 0,
    }
}

/// Into random order.
pub(crate) fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let bound = u64::try_from(last).unwrap_or(0).saturating_add(1);
        items.swap(last, usize::try_from(below(bound)).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_comes_up_and_nothing_is_lost() {
        let mut firsts = [false; 3];
        for _ in 0..200 {
            let mut items = [0, 1, 2];
            shuffle(&mut items);
            firsts[items[0]] = true;
            items.sort_unstable();
            assert_eq!(items, [0, 1, 2]);
        }
        assert_eq!(firsts, [true; 3]);
        assert_eq!((below(0), below(1)), (0, 0));
    }
}
