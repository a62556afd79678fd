//! Times as people read them. Messages never show a bare number of seconds.

/// Unix seconds as `2026-11-30 14:03:59 UTC`, for messages.
#[must_use]
pub fn utc(unix_s: i64) -> String {
    let days = unix_s.div_euclid(86_400);
    let second = unix_s.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The date of a day counted from 1970-01-01, in the proleptic Gregorian calendar. Eras of 400 years start on
/// 1 March, so that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let leap_days =
        (day_of_era / 1460).saturating_sub(day_of_era / 36_524).saturating_add(day_of_era / 146_096);
    let year_of_era = day_of_era.saturating_sub(leap_days) / 365;
    let before_year = year_of_era.saturating_mul(365).saturating_add(year_of_era / 4);
    let day_of_year = day_of_era.saturating_sub(before_year.saturating_sub(year_of_era / 100));
    let month_from_march = day_of_year.saturating_mul(5).saturating_add(2) / 153;
    let before_month = month_from_march.saturating_mul(153).saturating_add(2) / 5;
    let day = day_of_year.saturating_sub(before_month).saturating_add(1);
    let month = if month_from_march < 10 {
        month_from_march.saturating_add(3)
    } else {
        month_from_march.saturating_sub(9)
    };
    let year = year_of_era.saturating_add(era.saturating_mul(400)).saturating_add(i64::from(month <= 2));
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are those of `date -u -d @N`.
    #[test]
    fn times_are_shown_as_date_shows_them() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_796_047_439, "2026-11-30 14:03:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (4_294_967_295, "2106-02-07 06:28:15 UTC"),
        ] {
            assert_eq!(utc(unix_s), text);
        }
    }
}
