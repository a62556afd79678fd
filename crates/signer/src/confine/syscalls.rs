//! System calls: what the signer needs after its start, and nothing else. Two filters, of which the kernel takes the
//! stricter answer: calls that only an attacker makes end the process; all others that are not needed answer
//! "no such call" (ENOSYS), which libraries know from older kernels and get by without. Front, which needs many more, is
//! only refused those of an attacker.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::Openings;

/// # Errors
/// What the kernel or the compiler of filters says.
pub(super) fn restrict(openings: Openings<'_>) -> Result<(), seccompiler::Error> {
    let mut attacks: Rules = ATTACKS.iter().chain(NOT_OURS).map(|number| (*number, Vec::new())).collect();
    if openings.listener.is_none() {
        attacks.insert(libc::SYS_accept4, Vec::new());
    }
    install(attacks, SeccompAction::Allow, SeccompAction::KillProcess)?;
    let not_there = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    install(needed(openings)?, not_there, SeccompAction::Allow)
}

/// For front, which keeps its calls but these, and makes Unix sockets alone; the answer is "not permitted".
///
/// # Errors
/// As [`restrict`].
pub(super) fn refuse_attacks() -> Result<(), seccompiler::Error> {
    let mut attacks: Rules = ATTACKS.iter().map(|number| (*number, Vec::new())).collect();
    let family = u64::from(libc::AF_UNIX.cast_unsigned());
    let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)?;
    attacks.insert(libc::SYS_socket, vec![SeccompRule::new(vec![other])?]);
    install(attacks, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM.cast_unsigned()))
}

/// The worker of a token: what only an attacker does ends it. The rest stays: nobody knows what a module needs.
///
/// # Errors
/// What the kernel or the compiler of filters says.
pub(crate) fn restrict_worker(network: bool) -> Result<(), seccompiler::Error> {
    let attacks = ATTACKS.iter().chain(NOT_OURS).filter(|number| !OF_MODULES.contains(number));
    let mut attacks: Rules = attacks.map(|number| (*number, Vec::new())).collect();
    if !network {
        // Sockets of this machine only.
        let operator = SeccompCmpOp::Ne;
        let local = u64::from(libc::AF_UNIX.cast_unsigned());
        let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, local)?;
        let refused = u32::try_from(libc::EAFNOSUPPORT).unwrap_or(97);
        let rules = [(libc::SYS_socket, vec![SeccompRule::new(vec![other])?])].into();
        install(rules, SeccompAction::Allow, SeccompAction::Errno(refused))?;
    }
    // Processes, not threads. clone3 hides its flags: libc falls back on clone when it is not there.
    attacks.insert(libc::SYS_clone, vec![SeccompRule::new(vec![masked(0, libc::CLONE_THREAD, 0)?])?]);
    install(attacks, SeccompAction::Allow, SeccompAction::KillProcess)?;
    let not_there = u32::try_from(libc::ENOSYS).unwrap_or(38);
    let rules = [(libc::SYS_clone3, Vec::new())].into();
    install(rules, SeccompAction::Allow, SeccompAction::Errno(not_there))
}

/// Of those, what modules do: they speak to daemons of readers, or to appliances.
const OF_MODULES: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_sendmmsg,
    libc::SYS_memfd_create,
];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn install(
    rules: Rules,
    otherwise: SeccompAction,
    matching: SeccompAction,
) -> Result<(), seccompiler::Error> {
    let architecture = std::env::consts::ARCH.try_into()?;
    let filter: BpfProgram = SeccompFilter::new(rules, otherwise, matching, architecture)?.try_into()?;
    seccompiler::apply_filter_all_threads(&filter)
}

/// Other programs, other processes, doors to the network, the kernel itself. Nothing in signer or front, their libraries
/// or libc asks for these once they serve. (Front calls listen, to lengthen the queue of a socket that is bound.)
const ATTACKS: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_personality,
];

/// What the signer, beside these, never asks for: it makes no socket, no process and no file without a name.
const NOT_OURS: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_sendmmsg,
    libc::SYS_memfd_create,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Needed with any arguments. What the files among them reach is Landlock's to say.
const ANY_ARGUMENTS: &[i64] = &[
    // The socket to front, and the log.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    // Floors and counts.
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_geteuid,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    // Memory; mapping and protecting are below.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_munlock,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time and chance.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_gettimeofday,
];

fn needed(openings: Openings<'_>) -> Result<Rules, seccompiler::Error> {
    let mut rules: Rules = ANY_ARGUMENTS.iter().map(|number| (*number, Vec::new())).collect();
    // Threads that stand back for others, each by itself: of another process, or of a user, is nobody's business.
    let own = vec![equal(0, PRIO_PROCESS)?, equal(1, 0)?];
    rules.insert(libc::SYS_setpriority, vec![SeccompRule::new(own)?]);
    let mut only = |number: i64, condition: SeccompCondition| {
        rules.insert(number, vec![SeccompRule::new(vec![condition])?]);
        Ok::<_, seccompiler::Error>(())
    };
    // No memory that can be run: code that was not loaded at the start does not run here.
    only(libc::SYS_mmap, masked(2, libc::PROT_EXEC, 0)?)?;
    only(libc::SYS_mprotect, masked(2, libc::PROT_EXEC, 0)?)?;
    // Threads, not processes. clone3 hides its flags from filters: libc falls back on clone when it is not there.
    only(libc::SYS_clone, masked(0, libc::CLONE_THREAD, libc::CLONE_THREAD)?)?;
    // To abort; signals to others are not needed.
    only(libc::SYS_tgkill, equal(0, rustix::process::getpid().as_raw_pid())?)?;
    // Names of threads.
    only(libc::SYS_prctl, equal(0, libc::PR_SET_NAME)?)?;
    if let Some(keeper) = openings.keeper {
        // Sockets of new workers, and of nothing else.
        only(libc::SYS_recvmsg, equal(0, keeper.as_raw_fd())?)?;
    }
    if let Some(listener) = openings.listener {
        // The next front, who it is, and whether it or a stop comes first.
        only(libc::SYS_accept4, equal(0, listener.as_raw_fd())?)?;
        only(libc::SYS_getsockopt, equal(2, libc::SO_PEERCRED)?)?;
        rules.insert(libc::SYS_ppoll, Vec::new());
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_poll, Vec::new());
    }
    Ok(rules)
}

/// `PRIO_PROCESS` of setpriority(2); the type of the constant in libc differs between C libraries.
const PRIO_PROCESS: i32 = 0;

fn masked(argument: u8, mask: i32, value: i32) -> Result<SeccompCondition, seccompiler::Error> {
    let operator = SeccompCmpOp::MaskedEq(u64::from(mask.cast_unsigned()));
    let value = u64::from(value.cast_unsigned());
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?)
}

fn equal(argument: u8, value: i32) -> Result<SeccompCondition, seccompiler::Error> {
    let value = u64::from(value.cast_unsigned());
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_needed_ends_the_process() {
        let standard_input = rustix::stdio::stdin();
        let openings = Openings { listener: Some(standard_input), keeper: Some(standard_input) };
        let needed = needed(openings).unwrap();
        for number in ATTACKS.iter().chain(NOT_OURS) {
            assert!(!needed.contains_key(number), "{number}");
        }
    }
}
