"""Where a setting exists and has an effect: by release, by cluster manager, by platform."""
