"""Recordings: all that entered the core and all that it decided, in one format for live, fake and replayed runs.

docs/reference/formats.md describes the lines, docs/schema/recording.json holds them to it. The parts:
``recording.header`` (the first line), ``recording.codec`` (stimuli and decisions), ``recording.pods`` (pods as what
changed of them), ``recording.writer``, ``recording.reader``, and ``recording.opening`` for whoever only asks whether a
file is one::

    with RecordingWriter(path, header_of(app_id, conf, now, "live")) as writer:
        writer.step(now, stimuli, step.commands, step.reports)

    with Recording(path) as recording:
        for step in recording:
            ...
        if recording.cut: ...
"""
