//! One budget for all tasks of a queue. A task's share is reserved before it starts, so that all tasks together never
//! exceed the total; the unspent part is returned.

use super::QueueStopReason;

/// A budget in micro-USD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueBudget {
    /// `None` means no limit.
    total: Option<u64>,
    /// No task is started with less than this.
    least_to_start: u64,
    accounts: Vec<BudgetAccount>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BudgetAccount {
    /// Cost of all runs of the task.
    spent: u64,
    /// While the task runs, its reservation: the most that it may spend in total.
    cap: Option<u64>,
    /// The task's own limit.
    own_limit: Option<u64>,
}

impl BudgetAccount {
    fn reserved(&self) -> u64 {
        self.cap.map_or(self.spent, |cap| cap.max(self.spent))
    }

    fn room(&self) -> u64 {
        self.own_limit.map_or(u64::MAX, |own| own.saturating_sub(self.spent))
    }
}

impl QueueBudget {
    /// `tasks` holds the cost so far and the own limit of each task.
    pub fn new(total: Option<u64>, least: u64, tasks: &[(u64, Option<u64>)]) -> Self {
        let least = total.map_or(least, |total| least.min(total));
        let accounts = tasks.iter().map(|(spent, own)| BudgetAccount {
            spent: *spent,
            cap: None,
            own_limit: *own,
        });
        Self { total, least_to_start: least, accounts: accounts.collect() }
    }

    pub fn total(&self) -> Option<u64> {
        self.total
    }

    pub fn spent(&self) -> u64 {
        self.accounts.iter().fold(0, |sum, account| sum.saturating_add(account.spent))
    }

    pub fn spent_on(&self, task: usize) -> u64 {
        self.accounts.get(task).map_or(0, |account| account.spent)
    }

    /// The part that is neither spent nor reserved.
    fn free(&self) -> Option<u64> {
        let held =
            self.accounts.iter().fold(0_u64, |sum, account| sum.saturating_add(account.reserved()));
        self.total.map(|total| total.saturating_sub(held))
    }

    /// Why no task can start, if too little is free.
    pub fn shortage(&self) -> Option<QueueStopReason> {
        let least_micro_usd = self.least_to_start.max(1);
        let left_micro_usd = self.free().filter(|free| *free < least_micro_usd)?;
        Some(QueueStopReason::OutOfBudget { left_micro_usd, least_micro_usd })
    }

    /// Reserves the share of a task that starts now, as one of `beside` tasks that could. Returns the most that it may
    /// spend in total; `None` means no limit.
    pub fn reserve(&mut self, task: usize, beside: usize) -> Option<u64> {
        let free = self.free();
        let least = self.least_to_start;
        let account = self.accounts.get_mut(task)?;
        let share = free.map(|free| {
            let equal = free / u64::try_from(beside.max(1)).unwrap_or(u64::MAX);
            equal.max(least).min(free)
        });
        let cap = match (share, account.own_limit) {
            (None, own) => own,
            (Some(share), _) => Some(account.spent.saturating_add(share.min(account.room()))),
        };
        account.cap = cap;
        cap
    }

    pub fn record_spent(&mut self, task: usize, spent: u64) {
        if let Some(account) = self.accounts.get_mut(task) {
            account.spent = account.spent.max(spent);
        }
    }

    /// Returns the unspent part of a task's reservation.
    pub fn release(&mut self, task: usize) {
        if let Some(account) = self.accounts.get_mut(task) {
            account.cap = None;
        }
    }

    /// Divides the free part among the running tasks that can use it, and returns their new totals.
    pub fn share_out(&mut self) -> Vec<(usize, u64)> {
        let Some(free) = self.free() else { return Vec::new() };
        let wants = |account: &BudgetAccount| {
            account.cap.is_some_and(|cap| {
                cap >= account.spent && account.own_limit.is_none_or(|own| own > cap)
            })
        };
        let count = self.accounts.iter().filter(|account| wants(account)).count();
        let share = free.checked_div(u64::try_from(count).unwrap_or(u64::MAX)).unwrap_or(0);
        // A few cents are not worth an entry in a run's journal.
        if share < self.least_to_start.max(1) {
            return Vec::new();
        }
        let mut raised = Vec::new();
        for (task, account) in self.accounts.iter_mut().enumerate() {
            if !wants(account) {
                continue;
            }
            let more = account.cap.unwrap_or(0).saturating_add(share);
            let cap = account.own_limit.map_or(more, |own| own.min(more));
            account.cap = Some(cap);
            raised.push((task, cap));
        }
        raised
    }
}
