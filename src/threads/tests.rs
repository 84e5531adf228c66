//! Tests of the pool. `tests/threads` checks what is under it in every order, and `scripts/tsan.sh` runs these tests under
//! the thread sanitizer.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use super::tasks::{Taken, Tasks};
use super::*;

/// How many times tests repeat a run that may differ each time: `n` times, and a few times under Miri, which is slow.
fn rounds(n: usize) -> std::ops::Range<usize> {
    0..if cfg!(miri) { n.min(2) } else { n }
}

/// A pool that may keep all its threads awake, whatever this machine has.
fn wide(n_threads: usize) -> ThreadPool {
    ThreadPool::with_cpus(n_threads, None, usize::MAX / MAX_THREADS).expect("a pool")
}

/// Returns when all workers sleep.
fn fall_asleep(pool: &ThreadPool) {
    while pool.n_asleep() < pool.n_threads() - 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn sum_of_tasks(pool: &mut ThreadPool, n_tasks: usize) -> usize {
    let sum = AtomicUsize::new(0);
    pool.run(n_tasks, &|_, task| _ = sum.fetch_add(task, SeqCst));
    sum.into_inner()
}

#[test]
fn each_task_is_taken_once_whoever_comes() {
    let taken = Taken::new(3);
    let mut tasks = Tasks::default();
    for n_tasks in [8, 1, 3, 7, 7] {
        tasks = taken.begin(tasks, n_tasks);
        let mut of_second = Vec::new();
        taken.run(1, tasks, |task| of_second.push(task));
        // Its own, then those of the third, then all of the first except the caller's.
        let own = |thread: usize| (thread..n_tasks).step_by(3);
        assert!(of_second.iter().copied().eq(own(1).chain(own(2)).chain(own(0).skip(1))), "{of_second:?}");
        let mut of_caller = Vec::new();
        taken.run(0, tasks, |task| of_caller.push(task));
        assert_eq!(of_caller, [0]);
        taken.run(2, tasks, |task| panic!("task {task} is there again"));
    }
    tasks = taken.begin(tasks, 7);
    taken.take_all(tasks);
    taken.run(2, tasks, |task| panic!("task {task} is left"));
}

#[test]
fn tasks_are_there_again_when_job_numbers_are() {
    let taken = Taken::new(3);
    let mut tasks = Tasks::default();
    for _ in 0..3 {
        tasks = taken.begin(tasks, 8);
        let mut n_run = 0;
        taken.run(0, tasks, |_| n_run += 1);
        assert_eq!(n_run, 8);
        // The next one has the same number, as after 2³² - 1 jobs.
        tasks.job = u32::MAX;
    }
}

#[test]
fn every_task_runs_once_whatever_the_thread_count() {
    for n_threads in [1, 2, 3, 7] {
        for mut pool in [wide(n_threads), ThreadPool::new(n_threads, None).expect("a pool")] {
            for n_tasks in [0, 1, 2, 5, 1000] {
                let counts: Vec<AtomicUsize> = (0..n_tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(n_tasks, &|thread, task| {
                    assert!(thread < n_threads);
                    counts[task].fetch_add(1, SeqCst);
                });
                assert!(counts.iter().all(|c| c.load(SeqCst) == 1), "{n_threads} threads, {n_tasks} tasks");
            }
        }
    }
}

/// Non-atomic writes of tasks are visible when `run` returns, and the caller's earlier writes are visible to tasks.
#[test]
fn jobs_see_what_was_written_before() {
    let mut pool = wide(4);
    let mut data = vec![0usize; 64];
    for round in rounds(20_000) {
        pool.for_parts(&mut data, 3, |_, part| part.iter_mut().for_each(|x| *x += 1));
        assert!(data.iter().all(|&x| x == round + 1));
    }
}

#[test]
fn jobs_after_a_pause_wake_the_workers() {
    let mut pool = wide(3);
    for _ in rounds(20) {
        fall_asleep(&pool);
        assert_eq!(sum_of_tasks(&mut pool, 64), 63 * 64 / 2);
        // Jobs that take a while, until all three have had a task.
        let threads = Mutex::new(BTreeSet::new());
        while threads.lock().expect("no panic").len() < 3 {
            pool.run(3, &|thread, _| {
                threads.lock().expect("no panic").insert(thread);
                std::thread::sleep(Duration::from_millis(1));
            });
        }
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    for bad in [0, 63] {
        let mut pool = wide(4);
        for _ in rounds(50) {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(64, &|_, task| assert!(task != bad, "task {task} is bad"));
            }));
            let payload = outcome.expect_err("a panic");
            assert_eq!(payload.downcast_ref::<String>(), Some(&format!("task {bad} is bad")));
            assert_eq!(sum_of_tasks(&mut pool, 10), 45);
        }
    }
}

#[test]
fn parts_are_disjoint_and_complete() {
    let mut pool = wide(2);
    let mut data = vec![0.0f32; 7 * 5 + 3];
    pool.for_parts(&mut data, 5, |i, part| part.fill(i as f32));
    assert!(data.chunks(5).enumerate().all(|(i, part)| part.iter().all(|&x| x == i as f32)));
}

#[test]
fn a_thread_count_out_of_range_is_refused() {
    assert!(ThreadPool::new(0, None).is_err());
    assert!(ThreadPool::new(MAX_THREADS + 1, None).is_err());
}

/// With two CPUs, two pools at work have one thread each: their callers.
#[test]
fn pools_that_share_cpus_leave_their_workers_asleep() {
    let mut pools = [(); 2].map(|()| ThreadPool::with_cpus(4, None, 2).expect("a pool"));
    pools.iter_mut().for_each(ThreadPool::begin);
    pools.iter().for_each(fall_asleep);
    for pool in &mut pools {
        pool.run(100, &|thread, _| assert_eq!(thread, 0));
        assert_eq!(pool.n_asleep(), 3);
    }
    let [mut first, mut second] = pools;
    second.rest();
    for _ in rounds(100) {
        let threads = Mutex::new(BTreeSet::new());
        first.run(100, &|thread, _| _ = threads.lock().expect("no panic").insert(thread));
        // Tests beside this one may take the second CPU; there is no third.
        assert!((1..=2).contains(&threads.into_inner().expect("no panic").len()));
        assert!(first.n_asleep() >= 2);
    }
    second.run(100, &|thread, _| assert_eq!(thread, 0));
}

#[test]
fn many_pools_side_by_side_finish_their_jobs() {
    std::thread::scope(|scope| {
        for n_threads in 2..8 {
            scope.spawn(move || {
                let mut pool = ThreadPool::new(n_threads, None).expect("a pool");
                for _ in rounds(200) {
                    assert_eq!(sum_of_tasks(&mut pool, 20), 190);
                    pool.rest();
                }
            });
        }
    });
}

/// Prints the cost of a job: the time of jobs of a given length on two threads, the least of many batches, and on one.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout, reason = "it is what the measurement is for")]
fn the_price_of_a_job() {
    const JOBS: u32 = 200;
    const TASKS: usize = 4;
    let price = |pool: &mut ThreadPool, work: u32| {
        let job = |_, _| (0..work).for_each(|i| _ = std::hint::black_box(i));
        let mut batch = || {
            let start = std::time::Instant::now();
            (0..JOBS).for_each(|_| pool.run(TASKS, &job));
            start.elapsed() / JOBS
        };
        (0..2000).map(|_| batch()).min().expect("batches")
    };
    let (mut one, mut two) = (wide(1), wide(2));
    for work in [0, 300, 1000, 3000, 10_000] {
        let (alone, together) = (price(&mut one, work), price(&mut two, work));
        println!("{TASKS} tasks of {work} steps: {alone:?} on one thread, {together:?} on two");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn workers_run_on_the_cpus_they_are_given() {
    let allowed = CpuSet::allowed().expect("a mask");
    let one = CpuSet::new(&[allowed.iter().next().expect("a CPU") as u32]).expect("a set");
    let mut pool = ThreadPool::with_cpus(3, Some(&one), 3).expect("a pool");
    for _ in rounds(100) {
        pool.run(8, &|thread, _| {
            let mine = CpuSet::allowed().expect("a mask");
            assert!(mine == if thread == 0 { allowed.clone() } else { one.clone() }, "thread {thread}");
        });
    }
    let nowhere = CpuSet::new(&[8191]).expect("a set");
    let error = ThreadPool::new(3, Some(&nowhere)).err().expect("an error");
    assert!(error.message().contains("[8191]"), "{error}");
    assert!(ThreadPool::new(1, Some(&nowhere)).is_ok(), "a pool without workers binds none");
}
