//! Sets of CPUs, by the system's numbers of logical CPUs.

use crate::error::{Error, Result};

/// CPU numbers are below this; Linux can be built for no more.
pub const MAX_CPUS: usize = 8192;

/// A set of CPU numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSet {
    /// Bit `i % 64` of word `i / 64` stands for CPU `i`, as the system has it.
    bits: Box<[u64; MAX_CPUS / 64]>,
}

impl CpuSet {
    fn empty() -> CpuSet {
        CpuSet { bits: Box::new([0; MAX_CPUS / 64]) }
    }

    /// The set of these numbers. `InvalidArgument` for one that no system has.
    pub fn new(numbers: &[u32]) -> Result<CpuSet> {
        let mut set = CpuSet::empty();
        for &cpu in numbers {
            if cpu as usize >= MAX_CPUS {
                return Err(Error::InvalidArgument(format!(
                    "cpus has the number {cpu}; CPU numbers are below {MAX_CPUS}"
                )));
            }
            set.insert(cpu as usize);
        }
        Ok(set)
    }

    /// A list in sysfs's form, "0-3,8"; `None` for other text.
    #[cfg(any(test, not(windows)))]
    pub fn parse(list: &str) -> Option<CpuSet> {
        let mut set = CpuSet::empty();
        for range in list.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if last >= MAX_CPUS {
                return None;
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Some(set)
    }

    fn insert(&mut self, cpu: usize) {
        self.bits[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Whether CPU `cpu` is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.bits.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// The numbers in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..MAX_CPUS).filter(|&cpu| self.contains(cpu))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use super::*;

    const SIZE: usize = MAX_CPUS / 8;

    impl CpuSet {
        /// The CPUs that the calling thread may run on; `None` when the system does not say.
        pub fn allowed() -> Option<CpuSet> {
            let mut set = CpuSet::empty();
            // SAFETY: the set has SIZE bytes, which the system fills at most; 0 is the calling thread.
            let status = unsafe { libc::sched_getaffinity(0, SIZE, set.bits.as_mut_ptr().cast()) };
            (status >= 0 && !set.is_empty()).then_some(set)
        }

        /// `InvalidArgument` for the first of these CPUs that this process may not use. The calling thread's own mask may be
        /// narrower and does not say; so a new thread is bound to one CPU after the other.
        pub fn check_usable(&self) -> Result<()> {
            let set = self.clone();
            let check = move || {
                set.iter()
                    .try_for_each(|cpu| CpuSet::new(&[cpu as u32]).and_then(|one| one.bind_this_thread()))
            };
            let no_memory = |e| Error::NoMemory(format!("a thread that looks at CPUs did not start: {e}"));
            let thread = std::thread::Builder::new().spawn(check).map_err(no_memory)?;
            thread.join().unwrap_or_else(|_| Err(Error::Internal("the check of CPUs panicked".into())))
        }

        /// Lets the calling thread run on these CPUs only. `InvalidArgument` when it may run on none of them.
        pub fn bind_this_thread(&self) -> Result<()> {
            // SAFETY: the set has SIZE bytes, which are only read; 0 is the calling thread.
            let status = unsafe { libc::sched_setaffinity(0, SIZE, self.bits.as_ptr().cast()) };
            match status {
                0 => Ok(()),
                _ => Err(Error::InvalidArgument(format!(
                    "threads cannot be bound to the CPUs {:?}: {}",
                    self.iter().collect::<Vec<_>>(),
                    std::io::Error::last_os_error()
                ))),
            }
        }
    }
}

#[cfg(windows)]
impl CpuSet {
    /// The CPUs that this process may run on; `None` when the system does not say.
    pub fn allowed() -> Option<CpuSet> {
        super::windows::allowed()
    }

    /// `InvalidArgument` for the first of these CPUs that a thread of this process cannot be bound to.
    pub fn check_usable(&self) -> Result<()> {
        let set = self.clone();
        let check = move || {
            set.iter().try_for_each(|cpu| CpuSet::new(&[cpu as u32]).and_then(|one| one.bind_this_thread()))
        };
        let no_memory = |e| Error::NoMemory(format!("a thread that looks at CPUs did not start: {e}"));
        let thread = std::thread::Builder::new().spawn(check).map_err(no_memory)?;
        thread.join().unwrap_or_else(|_| Err(Error::Internal("the check of CPUs panicked".into())))
    }

    /// Lets the calling thread run on these CPUs only. `InvalidArgument` when the system refuses.
    pub fn bind_this_thread(&self) -> Result<()> {
        super::windows::bind_this_thread(self).map_err(|e| {
            let cpus = self.iter().collect::<Vec<_>>();
            Error::InvalidArgument(format!("threads cannot be bound to the CPUs {cpus:?}: {e}"))
        })
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
impl CpuSet {
    /// The CPUs that the calling thread may run on; `None` when the system does not say.
    pub fn allowed() -> Option<CpuSet> {
        None
    }

    /// CPUs are unknown here; binding threads to them is refused.
    pub fn check_usable(&self) -> Result<()> {
        Ok(())
    }

    /// Lets the calling thread run on these CPUs only: `Unsupported`, this system cannot do that.
    pub fn bind_this_thread(&self) -> Result<()> {
        Err(Error::Unsupported("this system does not let threads be bound to CPUs".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_sysfs_writes_them() {
        let numbers = |list| CpuSet::parse(list).map(|set| set.iter().collect::<Vec<_>>());
        assert_eq!(numbers("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(numbers("63-65"), Some(vec![63, 64, 65]));
        assert_eq!(numbers("8191"), Some(vec![8191]));
        assert_eq!(numbers("\n"), Some(vec![]));
        for bad in ["0-", "x", "8192", "0-99999999999999999999", "1,,-2"] {
            assert_eq!(numbers(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn numbers_beyond_every_system_are_refused() {
        let set = CpuSet::new(&[5, 700, 5]).expect("a set");
        assert_eq!(
            (set.len(), set.contains(700), set.contains(6), set.contains(MAX_CPUS)),
            (2, true, false, false)
        );
        assert!(CpuSet::new(&[]).is_ok_and(|set| set.is_empty()));
        assert!(CpuSet::new(&[MAX_CPUS as u32]).is_err());
        assert!(CpuSet::new(&[u32::MAX]).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_runs_on_the_cpus_it_is_bound_to() {
        let allowed = CpuSet::allowed().expect("a mask");
        let one = CpuSet::new(&[allowed.iter().last().expect("a CPU") as u32]).expect("a set");
        let bound = std::thread::spawn(move || {
            one.bind_this_thread().expect("bound");
            assert_eq!(CpuSet::allowed(), Some(one));
        });
        bound.join().expect("no panic");
        assert_eq!(CpuSet::allowed(), Some(allowed), "other threads stay as they are");
        let allowed_now = CpuSet::allowed().expect("a mask");
        let first = allowed_now.iter().next().expect("a CPU") as u32;
        assert_eq!(CpuSet::new(&[first, first]).expect("a set").check_usable(), Ok(()));
        let unknown = CpuSet::new(&[first, 8190]).expect("a set").check_usable();
        assert!(unknown.is_err_and(|e| e.message().contains("[8190]")));
        assert_eq!(CpuSet::allowed().as_ref(), Some(&allowed_now), "the caller is never bound");
        let none = CpuSet::new(&[MAX_CPUS as u32 - 1]).expect("a set");
        assert!(none.bind_this_thread().is_err_and(|e| e.message().contains("[8191]")));
    }
}
