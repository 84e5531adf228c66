//! CPUs on Windows: groups of 64, where a thread runs on CPUs of one group at a time.

use std::io;
use std::mem::{offset_of, size_of};

use windows_sys::Win32::System::SystemInformation::{
    GROUP_AFFINITY, GetLogicalProcessorInformationEx, PROCESSOR_RELATIONSHIP, RelationProcessorCore,
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask, SetThreadGroupAffinity,
};

use super::CpuSet;

/// CPUs of a group: number `i` of this library is CPU `i % 64` of group `i / 64`.
const GROUP: usize = 64;

/// A physical core.
struct Core {
    /// Higher for faster cores; 0 for all where they are alike.
    class: u8,
    /// Its CPUs.
    cpus: Vec<usize>,
}

/// The CPUs that this process may run on: its mask, where it has CPUs of one group only. `None` when the system does not say.
pub(super) fn allowed() -> Option<CpuSet> {
    // SAFETY: no condition.
    let process = unsafe { GetCurrentProcess() };
    let (mut mine, mut all) = (0usize, 0usize);
    // SAFETY: the calling process, and two numbers that are written.
    let status = unsafe { GetProcessAffinityMask(process, &mut mine, &mut all) };
    // A process with threads in several groups has a mask of zeros.
    let of_mask = (status != 0 && mine != 0).then(|| members(0, mine as u64));
    let cpus = of_mask.or_else(|| Some(cores()?.into_iter().flat_map(|core| core.cpus).collect()))?;
    CpuSet::new(&cpus.iter().map(|&cpu| cpu as u32).collect::<Vec<_>>()).ok()
}

/// Lets the calling thread run on these CPUs only.
///
/// # Errors
/// The system's, and one for CPUs of several groups.
pub(super) fn bind_this_thread(cpus: &CpuSet) -> io::Result<()> {
    let mut masks = std::collections::BTreeMap::<usize, u64>::new();
    cpus.iter().for_each(|cpu| *masks.entry(cpu / GROUP).or_default() |= 1 << (cpu % GROUP));
    let Some((group, mask)) = masks.pop_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
    if !masks.is_empty() {
        return Err(io::Error::other("Windows binds a thread to CPUs of one group of 64 only"));
    }
    let affinity = GROUP_AFFINITY { Mask: mask as usize, Group: group as u16, Reserved: [0; 3] };
    // SAFETY: no condition.
    let thread = unsafe { GetCurrentThread() };
    // SAFETY: the calling thread, a mask that is read, and no buffer for the old one.
    match unsafe { SetThreadGroupAffinity(thread, &affinity, std::ptr::null_mut()) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// How many of the fastest cores have CPUs among `cpus`. `None` when the system does not say.
pub(super) fn performance_cores(cpus: &CpuSet) -> Option<usize> {
    let mut cores = cores()?;
    cores.retain(|core| core.cpus.iter().any(|&cpu| cpus.contains(cpu)));
    let best = cores.iter().map(|core| core.class).max()?;
    Some(cores.iter().filter(|core| core.class == best).count())
}

fn members(group: usize, mask: u64) -> Vec<usize> {
    (0..GROUP).filter(|i| mask >> i & 1 == 1).map(|i| group * GROUP + i).collect()
}

/// The machine's cores.
fn cores() -> Option<Vec<Core>> {
    let mut len = 0u32;
    // SAFETY: no buffer, so that only the length is given.
    unsafe { GetLogicalProcessorInformationEx(RelationProcessorCore, std::ptr::null_mut(), &mut len) };
    // Entries are aligned like their numbers.
    let mut buffer = vec![0u64; (len as usize).div_ceil(8)];
    let place = buffer.as_mut_ptr().cast::<SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX>();
    // SAFETY: a buffer of `len` bytes.
    let status = unsafe { GetLogicalProcessorInformationEx(RelationProcessorCore, place, &mut len) };
    if status == 0 {
        return None;
    }
    let bytes = bytemuck::cast_slice::<u64, u8>(&buffer).get(..len as usize)?;
    let cores = entries(bytes)?;
    (!cores.is_empty()).then_some(cores)
}

/// The cores in the system's answer: entries of several lengths, one after the other.
fn entries(mut bytes: &[u8]) -> Option<Vec<Core>> {
    const CORE: usize = offset_of!(SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX, Anonymous);
    let number = |bytes: &[u8], at: usize, n: usize| {
        let mut le = [0; 8];
        le[..n].copy_from_slice(bytes.get(at..at + n)?);
        Some(u64::from_le_bytes(le))
    };
    let mut cores = Vec::new();
    while !bytes.is_empty() {
        let size = number(bytes, offset_of!(SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX, Size), 4)? as usize;
        let entry = bytes.get(..size).filter(|entry| !entry.is_empty())?;
        let class = number(entry, CORE + offset_of!(PROCESSOR_RELATIONSHIP, EfficiencyClass), 1)? as u8;
        let n_groups = number(entry, CORE + offset_of!(PROCESSOR_RELATIONSHIP, GroupCount), 2)? as usize;
        let mut cpus = Vec::new();
        for i in 0..n_groups {
            let at = CORE + offset_of!(PROCESSOR_RELATIONSHIP, GroupMask) + i * size_of::<GROUP_AFFINITY>();
            let mask = number(entry, at + offset_of!(GROUP_AFFINITY, Mask), size_of::<usize>())?;
            let group = number(entry, at + offset_of!(GROUP_AFFINITY, Group), 2)?;
            cpus.extend(members(group as usize, mask));
        }
        cores.push(Core { class, cpus });
        bytes = &bytes[size..];
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_cores_and_this_process_some_of_them() {
        let allowed = allowed().expect("a mask");
        let n = performance_cores(&allowed).expect("cores");
        assert!((1..=allowed.len()).contains(&n), "{n} cores of {} CPUs", allowed.len());
        assert_eq!(performance_cores(&CpuSet::new(&[]).expect("a set")), None);
    }

    #[test]
    fn a_thread_is_bound_to_cpus_of_one_group() {
        let allowed = allowed().expect("a mask");
        let one = CpuSet::new(&[allowed.iter().last().expect("a CPU") as u32]).expect("a set");
        std::thread::spawn(move || one.bind_this_thread().expect("bound")).join().expect("no panic");
        let two_groups = CpuSet::new(&[0, 64]).expect("a set");
        assert!(two_groups.bind_this_thread().is_err_and(|e| e.message().contains("one group")));
    }

    #[test]
    fn entries_that_are_cut_short_are_no_cores() {
        assert!(entries(&[0; 4]).is_none());
        assert!(entries(&[0; 64]).is_none());
        let mut entry = [0u8; 64];
        entry[4] = 80;
        assert!(entries(&entry).is_none());
    }
}
