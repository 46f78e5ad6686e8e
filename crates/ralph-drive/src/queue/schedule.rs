//! Decides which task may start next. Pure: it is informed of starts and ends, and does no I/O.

use super::{QueueTask, QueueTaskEnding};

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueTaskState {
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
pub struct TaskSchedule {
    after: Vec<Vec<usize>>,
    marks: Vec<TaskMark>,
    parallel: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskMark {
    Open,
    Running,
    Done,
    Parked,
}

impl TaskSchedule {
    /// Runs at most `parallel` tasks at once. The dependencies have no cycle: [`read_queue`](super::read_queue) ensures
    /// that.
    pub fn new(tasks: &[QueueTask], parallel: usize) -> Self {
        let after = tasks.iter().map(|task| task.after.clone()).collect();
        Self { after, marks: vec![TaskMark::Open; tasks.len()], parallel: parallel.max(1) }
    }

    /// The first task, in queue order, that may start now.
    pub fn next_startable(&self) -> Option<usize> {
        if self.running_count() >= self.parallel {
            return None;
        }
        self.ready_tasks().next()
    }

    /// Number of tasks that could start now, limited by free slots.
    pub fn startable_count(&self) -> usize {
        self.ready_tasks().count().min(self.parallel.saturating_sub(self.running_count()))
    }

    fn ready_tasks(&self) -> impl Iterator<Item = usize> {
        (0..self.marks.len()).filter(|task| self.state(*task) == QueueTaskState::Ready)
    }

    pub fn running_count(&self) -> usize {
        self.marks.iter().filter(|mark| **mark == TaskMark::Running).count()
    }

    pub fn start(&mut self, task: usize) {
        self.set_mark(task, TaskMark::Running);
    }

    pub fn end(&mut self, task: usize, how: QueueTaskEnding) {
        self.set_mark(
            task,
            match how {
                QueueTaskEnding::Landed => TaskMark::Done,
                QueueTaskEnding::Parked => TaskMark::Parked,
            },
        );
    }

    fn set_mark(&mut self, task: usize, mark: TaskMark) {
        if let Some(at) = self.marks.get_mut(task) {
            *at = mark;
        }
    }

    pub fn state(&self, task: usize) -> QueueTaskState {
        match self.marks.get(task) {
            Some(TaskMark::Running) => QueueTaskState::Running,
            Some(TaskMark::Done) => QueueTaskState::Done,
            Some(TaskMark::Parked) | None => QueueTaskState::Parked,
            Some(TaskMark::Open) => self.open_state(task),
        }
    }

    fn open_state(&self, task: usize) -> QueueTaskState {
        let needed = self.after.get(task).map(Vec::as_slice).unwrap_or_default();
        if let Some(blocking) = needed.iter().find(|needed| self.is_blocked(**needed)) {
            return QueueTaskState::Blocked(*blocking);
        }
        let missing =
            needed.iter().find(|needed| self.marks.get(**needed) != Some(&TaskMark::Done));
        missing.map_or(QueueTaskState::Ready, |missing| QueueTaskState::Waits(*missing))
    }

    /// Whether the task is parked or depends on a parked one. Visits every task at most once.
    fn is_blocked(&self, task: usize) -> bool {
        let mut seen = vec![false; self.marks.len()];
        let mut next = vec![task];
        while let Some(task) = next.pop() {
            match self.marks.get(task) {
                Some(TaskMark::Parked) | None => return true,
                Some(TaskMark::Running | TaskMark::Done) => continue,
                Some(TaskMark::Open) => {}
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
