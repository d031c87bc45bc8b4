//! Settings that take effect, in whole or in part, at the start only.

use super::settings::config_file::Config;

impl Config {
    /// Returns the names of settings that differ from those of the config of the start, and take
    /// effect, in whole or in part, at the next start only.
    pub fn settings_for_restart(&self, start: &Self) -> Vec<&'static str> {
        let (limits, timeouts) = (&self.limits, &self.timeouts);
        let (old_limits, old_timeouts) = (&start.limits, &start.timeouts);
        let settings = [
            ("listen", self.listen != start.listen),
            ("admin.listen", self.admin.listen != start.admin.listen),
            ("limits.headers", limits.headers != old_limits.headers),
            (
                "limits.connections",
                limits.connections != old_limits.connections,
            ),
            (
                "limits.http2_streams",
                limits.http2_streams != old_limits.http2_streams,
            ),
            ("limits.body_rate", limits.body_rate != old_limits.body_rate),
            ("timeouts.header", timeouts.header != old_timeouts.header),
            ("timeouts.body", timeouts.body != old_timeouts.body),
            ("timeouts.idle", timeouts.idle != old_timeouts.idle),
            ("timeouts.write", timeouts.write != old_timeouts.write),
            (
                "timeouts.lame_duck",
                timeouts.lame_duck != old_timeouts.lame_duck,
            ),
            ("timeouts.drain", timeouts.drain != old_timeouts.drain),
            ("log.level", self.log.level != start.log.level),
            ("log.format", self.log.format != start.log.format),
        ];
        let changed = settings.into_iter().filter(|(_, is_changed)| *is_changed);
        changed.map(|(name, _)| name).collect()
    }
}
