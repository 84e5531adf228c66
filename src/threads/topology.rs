//! How many threads are worth having: one for each fast core of the machine that the process may use.
//!
//! Two threads on one core (SMT) share the units of matrix products, and every job waits for efficiency cores at its end, so
//! neither is counted. A limit that the system does not report counts as none.

#[cfg(not(windows))]
use std::path::Path;

use super::{CpuSet, MAX_THREADS};

/// The default number of threads of a pool: the performance cores among `cpus` (`None`: among those that the calling thread may
/// run on), but no more threads than the process may use by its affinity mask and cgroup quota.
pub fn default_threads(cpus: Option<&CpuSet>) -> usize {
    let n_allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
    let allowed = CpuSet::allowed();
    let cores = match cpus.or(allowed.as_ref()) {
        #[cfg(windows)]
        Some(cpus) => super::windows::performance_cores(cpus).unwrap_or(n_allowed),
        #[cfg(not(windows))]
        Some(cpus) => performance_cores(Path::new("/sys/devices"), cpus),
        None => system_cores().unwrap_or(n_allowed),
    };
    cores.min(n_allowed).clamp(1, MAX_THREADS)
}

/// The number of distinct fast cores that the CPUs `cpus` belong to, by the files below `devices` (`/sys/devices` of Linux). A
/// CPU without files there counts as a core.
#[cfg(not(windows))]
fn performance_cores(devices: &Path, cpus: &CpuSet) -> usize {
    let of_cpu = |cpu: usize, file: &str| read(&devices.join(format!("system/cpu/cpu{cpu}/{file}")));
    // Hybrid x86 processors list the CPUs of their performance cores here.
    let listed = read(&devices.join("cpu_core/cpus")).and_then(|list| CpuSet::parse(&list));
    // Arm (and newer kernels on x86) give each CPU its speed, 1024 for the fastest of the machine. Cores faster than half
    // of the fastest allowed one count: big and middle ones, not the little ones, which have a quarter to a third.
    let capacity = |cpu| of_cpu(cpu, "cpu_capacity").and_then(|text| text.trim().parse::<u64>().ok());
    let best = cpus.iter().filter_map(capacity).max().unwrap_or(0);
    let is_fast = |&cpu: &usize| {
        listed.as_ref().is_none_or(|listed| listed.contains(cpu))
            && capacity(cpu).is_none_or(|c| 2 * c > best)
    };
    let core = |cpu: usize| {
        let siblings = of_cpu(cpu, "topology/thread_siblings_list").and_then(|list| CpuSet::parse(&list));
        // The first allowed sibling stands for the core.
        siblings.and_then(|siblings| siblings.iter().find(|&s| cpus.contains(s))).unwrap_or(cpu)
    };
    let n_cores = |cpus: &mut dyn Iterator<Item = usize>| cpus.filter(|&cpu| core(cpu) == cpu).count();
    match n_cores(&mut cpus.iter().filter(is_fast)) {
        // None of the performance cores is allowed.
        0 => n_cores(&mut cpus.iter()),
        n => n,
    }
}

#[cfg(not(windows))]
fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The performance cores of the machine, where the system counts them itself.
#[cfg(target_vendor = "apple")]
fn system_cores() -> Option<usize> {
    let mut n: libc::c_int = 0;
    let mut size = std::mem::size_of_val(&n);
    let (name, place) = (c"hw.perflevel0.physicalcpu".as_ptr(), (&raw mut n).cast());
    // SAFETY: the name is NUL-terminated, `n` has `size` bytes, and nothing is set.
    let status = unsafe { libc::sysctlbyname(name, place, &mut size, std::ptr::null_mut(), 0) };
    (status == 0 && n > 0).then_some(n as usize)
}

/// The performance cores of the machine, where the system counts them itself.
#[cfg(not(target_vendor = "apple"))]
fn system_cores() -> Option<usize> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A folder like `/sys/devices`, removed when it is dropped.
    struct Devices(std::path::PathBuf);

    impl Devices {
        /// For each CPU, its siblings and its capacity ("" for what the machine does not have).
        fn new(name: &str, cpus: &[(&str, &str)]) -> Devices {
            let root = std::env::temp_dir().join(format!("ember-devices-{name}-{}", std::process::id()));
            let devices = Devices(root);
            for (cpu, (siblings, capacity)) in cpus.iter().enumerate() {
                devices.write(&format!("system/cpu/cpu{cpu}/topology/thread_siblings_list"), siblings);
                devices.write(&format!("system/cpu/cpu{cpu}/cpu_capacity"), capacity);
            }
            devices
        }

        fn write(&self, file: &str, text: &str) {
            if !text.is_empty() {
                let path = self.0.join(file);
                std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
                std::fs::write(path, format!("{text}\n")).expect("a file");
            }
        }

        fn cores(&self, cpus: &str) -> usize {
            performance_cores(&self.0, &CpuSet::parse(cpus).expect("a list"))
        }
    }

    impl Drop for Devices {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// An Epyc 7451 as recorded in the tests of util-linux: two sockets of 24 cores of two threads, `i` and `i + 48`.
    #[test]
    fn threads_of_one_core_count_once() {
        let siblings: Vec<String> = (0..96).map(|i| format!("{},{}", i % 48, i % 48 + 48)).collect();
        let cpus: Vec<(&str, &str)> = siblings.iter().map(|s| (s.as_str(), "")).collect();
        let devices = Devices::new("epyc", &cpus);
        assert_eq!(devices.cores("0-95"), 48);
        assert_eq!(devices.cores("0-3,48-51"), 4);
        assert_eq!(devices.cores("50-53"), 4);
        assert_eq!(devices.cores("1,49"), 1);
        assert_eq!(devices.cores("95"), 1);
    }

    /// A hybrid processor as recorded in the tests of hwloc: six performance cores of two threads, eight efficiency cores.
    #[test]
    fn efficiency_cores_do_not_count_beside_performance_cores() {
        let cpus: Vec<(String, &str)> =
            (0..20)
                .map(|i| {
                    if i < 12 {
                        (format!("{}-{}", i / 2 * 2, i / 2 * 2 + 1), "")
                    } else {
                        (i.to_string(), "")
                    }
                })
                .collect();
        let cpus: Vec<(&str, &str)> = cpus.iter().map(|(s, c)| (s.as_str(), *c)).collect();
        let devices = Devices::new("hybrid", &cpus);
        assert_eq!(devices.cores("0-19"), 14, "a kernel that does not know hybrid processors");
        devices.write("cpu_core/cpus", "0-11");
        devices.write("cpu_atom/cpus", "12-19");
        assert_eq!(devices.cores("0-19"), 6);
        assert_eq!(devices.cores("10-15"), 1);
        assert_eq!(devices.cores("12-19"), 8, "better slow cores than none");
    }

    /// A phone as recorded in the tests of util-linux: three Cortex-A510, two A710 and two A715, one X3.
    #[test]
    fn little_cores_do_not_count_beside_big_ones() {
        let capacity = ["280", "280", "280", "855", "855", "855", "855", "1024"];
        let cpus: Vec<(String, &str)> = (0..8).map(|i| (i.to_string(), capacity[i])).collect();
        let cpus: Vec<(&str, &str)> = cpus.iter().map(|(s, c)| (s.as_str(), *c)).collect();
        let devices = Devices::new("phone", &cpus);
        assert_eq!(devices.cores("0-7"), 5);
        assert_eq!(devices.cores("0-3"), 1);
        assert_eq!(devices.cores("0-2"), 3);
        assert_eq!(devices.cores("7"), 1);
    }

    #[test]
    fn files_that_are_missing_or_odd_cost_no_core() {
        let devices = Devices::new("odd", &[("0", ""), ("", ""), ("what", "fast"), ("9999", "-1")]);
        assert_eq!(devices.cores("0-5"), 6);
        devices.write("cpu_core/cpus", "nonsense");
        assert_eq!(devices.cores("0-3"), 4);
        assert_eq!(
            performance_cores(Path::new("/no/such/folder"), &CpuSet::parse("0-7").expect("a list")),
            8
        );
    }

    #[test]
    fn this_machine_gets_what_it_may_use() {
        let n_allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
        assert!((1..=n_allowed).contains(&default_threads(None)));
        let one = CpuSet::new(&[0]).expect("a set");
        assert_eq!(default_threads(Some(&one)), 1);
        assert_eq!(default_threads(Some(&CpuSet::new(&[]).expect("a set"))), 1);
    }
}
