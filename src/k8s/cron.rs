//! x
/// x
#[derive(Debug)]
pub struct Schedule;
impl Schedule {
    /// x
    pub fn parse(_text: &str) -> Result<Self, ()> {
        Err(())
    }
    /// x
    pub fn shortest_period_seconds(&self) -> Option<u64> {
        None
    }
}
