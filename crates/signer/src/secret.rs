//! Secret bytes: zeroed when dropped, without Debug, Display or comparison, so that they reach no log line.

use zeroize::Zeroizing;

/// Secret bytes of any length.
#[derive(Clone)]
pub(crate) struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over; the vector is zeroed in the end.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes. Copies of them are the caller's to zero.
    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }

    /// `len` random bytes.
    ///
    /// # Errors
    /// [`crate::Error::Random`].
    pub(crate) fn random(len: usize) -> Result<Self, crate::Error> {
        let mut bytes = Zeroizing::new(vec![0; len]);
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }
}

impl From<Zeroizing<Vec<u8>>> for Secret {
    fn from(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }
}

/// Random bytes of the system's generator, secret or not.
///
/// # Errors
/// [`crate::Error::Random`].
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), crate::Error> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| crate::Error::Random)
}
