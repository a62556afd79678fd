//! Users of this machine, by name.

use crate::failure::Failure;

/// Number of a user and of the group that is the user's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// User number.
    pub(crate) uid: u32,
    /// Number of the user's group.
    pub(crate) gid: u32,
}

/// Looks a user up, wherever the machine keeps its users.
///
/// # Errors
/// There is none of this name.
pub(crate) fn find(name: &str) -> Result<User, Failure> {
    match nix::unistd::User::from_name(name) {
        Ok(Some(user)) => Ok(User { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
        Ok(None) => Err(Failure::failed(
            format!("there is no user {name}"),
            format!("Make it: useradd --system --no-create-home --shell /usr/sbin/nologin {name}"),
        )),
        Err(error) => Err(Failure::failed(format!("cannot look up the user {name}: {error}"), "Try again.")),
    }
}

/// The name of a user, or its number where it has none.
pub(crate) fn name_of(uid: u32) -> String {
    match nix::unistd::User::from_uid(uid.into()) {
        Ok(Some(user)) => user.name,
        Ok(None) | Err(_) => uid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        assert_eq!(find("root").ok(), Some(User { uid: 0, gid: 0 }));
        assert!(find("no-such-user-here").unwrap_err().advice.contains("useradd"));
    }
}
