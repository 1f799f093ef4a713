//! Time zones by name, as Go finds them.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Why a name is not a time zone, with the message of Go's `time.LoadLocation`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The name could be outside the directory of time zones.
    #[error("time: invalid location name")]
    Name,
    /// No such zone.
    #[error("unknown time zone {0}")]
    Unknown(String),
}

/// Returns the time zone of an IANA name, as Go does: case-sensitive, and UTC for the empty name. Returns nothing
/// for `Local`, the zone of the host.
///
/// Uses the built-in database, for the same answer everywhere.
///
/// # Errors
/// The name is unknown or invalid.
pub fn load_location(name: &str) -> Result<Option<TimeZone>, LocationError> {
    match name {
        "" | "UTC" => return Ok(Some(TimeZone::UTC)),
        "Local" => return Ok(None),
        _ => {}
    }
    if name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|step| step == "..") {
        return Err(LocationError::Name);
    }
    let zone = TimeZoneDatabase::bundled().get(name).ok();
    let zone = zone.filter(|zone| zone.iana_name() == Some(name));
    zone.map(Some).ok_or_else(|| LocationError::Unknown(name.to_owned()))
}
