//! One budget for all tasks. What a task may spend is set aside for it, so that all of them together never spend more
//! than there is; what it leaves over goes back.

/// In millionths of a dollar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purse {
    /// `None` is without limit.
    total: Option<u64>,
    /// With less than this no task is worth starting.
    least: u64,
    accounts: Vec<Account>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    /// Over all runs of the task.
    spent: u64,
    /// What is set aside for a task at work: it may come to spend this much altogether.
    cap: Option<u64>,
    /// What the task itself says that it may cost.
    own: Option<u64>,
}

impl Account {
    fn held(&self) -> u64 {
        self.cap.map_or(self.spent, |cap| cap.max(self.spent))
    }

    fn room(&self) -> u64 {
        self.own.map_or(u64::MAX, |own| own.saturating_sub(self.spent))
    }
}

impl Purse {
    /// For each task what was spent on it before and what it may cost by its own terms.
    pub fn new(total: Option<u64>, least: u64, tasks: &[(u64, Option<u64>)]) -> Self {
        let least = total.map_or(least, |total| least.min(total));
        let accounts =
            tasks.iter().map(|(spent, own)| Account { spent: *spent, cap: None, own: *own });
        Self { total, least, accounts: accounts.collect() }
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

    /// What nobody spent and nothing is set aside of.
    fn free(&self) -> Option<u64> {
        let held =
            self.accounts.iter().fold(0_u64, |sum, account| sum.saturating_add(account.held()));
        self.total.map(|total| total.saturating_sub(held))
    }

    /// Whether there is enough to start anything with.
    pub fn suffices(&self) -> bool {
        self.free().is_none_or(|free| free >= self.least.max(1))
    }

    /// Sets aside what a task may spend that starts now, one of `beside` that could. The answer is what it may come to
    /// altogether; `None` is without limit.
    pub fn allot(&mut self, task: usize, beside: usize) -> Option<u64> {
        let free = self.free();
        let least = self.least;
        let account = self.accounts.get_mut(task)?;
        let share = free.map(|free| {
            let equal = free / u64::try_from(beside.max(1)).unwrap_or(u64::MAX);
            equal.max(least).min(free)
        });
        let cap = match (share, account.own) {
            (None, own) => own,
            (Some(share), _) => Some(account.spent.saturating_add(share.min(account.room()))),
        };
        account.cap = cap;
        cap
    }

    pub fn note(&mut self, task: usize, spent: u64) {
        if let Some(account) = self.accounts.get_mut(task) {
            account.spent = account.spent.max(spent);
        }
    }

    /// What was set aside and not spent is there for others again.
    pub fn release(&mut self, task: usize) {
        if let Some(account) = self.accounts.get_mut(task) {
            account.cap = None;
        }
    }

    /// Divides what is free among those at work that could use it, and says what each may come to now.
    pub fn share_out(&mut self) -> Vec<(usize, u64)> {
        let Some(free) = self.free() else { return Vec::new() };
        let wants = |account: &Account| {
            account
                .cap
                .is_some_and(|cap| cap >= account.spent && account.own.is_none_or(|own| own > cap))
        };
        let count = self.accounts.iter().filter(|account| wants(account)).count();
        let share = free.checked_div(u64::try_from(count).unwrap_or(u64::MAX)).unwrap_or(0);
        // Cents are not worth a line in somebody's record.
        if share < self.least.max(1) {
            return Vec::new();
        }
        let mut raised = Vec::new();
        for (task, account) in self.accounts.iter_mut().enumerate() {
            if !wants(account) {
                continue;
            }
            let more = account.cap.unwrap_or(0).saturating_add(share);
            let cap = account.own.map_or(more, |own| own.min(more));
            account.cap = Some(cap);
            raised.push((task, cap));
        }
        raised
    }
}
