//! Decides which task may start next. Pure: it is informed of starts and ends, and does no I/O.

use super::{Ending, Task};

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// All dependencies are done.
    Ready,
    /// Waits for this task, which may still be done.
    Waits(usize),
    /// This dependency is parked, or depends on a parked task.
    Blocked(usize),
    Running,
    Done,
    Parked,
}

#[derive(Clone, Debug)]
pub struct Schedule {
    after: Vec<Vec<usize>>,
    marks: Vec<Mark>,
    parallel: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Open,
    Running,
    Done,
    Parked,
}

impl Schedule {
    /// Runs at most `parallel` tasks at once. The dependencies have no cycle: [`read_queue`](super::read_queue) ensures
    /// that.
    pub fn new(tasks: &[Task], parallel: usize) -> Self {
        let after = tasks.iter().map(|task| task.after.clone()).collect();
        Self { after, marks: vec![Mark::Open; tasks.len()], parallel: parallel.max(1) }
    }

    /// The first task, in queue order, that may start now.
    pub fn next(&self) -> Option<usize> {
        if self.running() >= self.parallel {
            return None;
        }
        self.ready().next()
    }

    /// Number of tasks that could start now, limited by free slots.
    pub fn startable(&self) -> usize {
        self.ready().count().min(self.parallel.saturating_sub(self.running()))
    }

    fn ready(&self) -> impl Iterator<Item = usize> {
        (0..self.marks.len()).filter(|task| self.stand(*task) == Stand::Ready)
    }

    pub fn running(&self) -> usize {
        self.marks.iter().filter(|mark| **mark == Mark::Running).count()
    }

    pub fn start(&mut self, task: usize) {
        self.mark(task, Mark::Running);
    }

    pub fn end(&mut self, task: usize, how: Ending) {
        self.mark(
            task,
            match how {
                Ending::Landed => Mark::Done,
                Ending::Parked => Mark::Parked,
            },
        );
    }

    fn mark(&mut self, task: usize, mark: Mark) {
        if let Some(at) = self.marks.get_mut(task) {
            *at = mark;
        }
    }

    pub fn stand(&self, task: usize) -> Stand {
        match self.marks.get(task) {
            Some(Mark::Running) => Stand::Running,
            Some(Mark::Done) => Stand::Done,
            Some(Mark::Parked) | None => Stand::Parked,
            Some(Mark::Open) => self.open(task),
        }
    }

    fn open(&self, task: usize) -> Stand {
        let needed = self.after.get(task).map(Vec::as_slice).unwrap_or_default();
        if let Some(blocking) = needed.iter().find(|needed| self.is_hopeless(**needed)) {
            return Stand::Blocked(*blocking);
        }
        let missing = needed.iter().find(|needed| self.marks.get(**needed) != Some(&Mark::Done));
        missing.map_or(Stand::Ready, |missing| Stand::Waits(*missing))
    }

    /// Whether the task is parked or depends on a parked one. Visits every task at most once.
    fn is_hopeless(&self, task: usize) -> bool {
        let mut seen = vec![false; self.marks.len()];
        let mut next = vec![task];
        while let Some(task) = next.pop() {
            match self.marks.get(task) {
                Some(Mark::Parked) | None => return true,
                Some(Mark::Running | Mark::Done) => continue,
                Some(Mark::Open) => {}
            }
            for needed in self.after.get(task).into_iter().flatten() {
                if let Some(seen) = seen.get_mut(*needed)
                    && !std::mem::replace(seen, true)
                {
                    next.push(*needed);
                }
            }
        }
        false
    }
}
