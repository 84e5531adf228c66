package ember;

import java.util.ArrayList;
import java.util.List;

/** What options have in common: calls of setters, in their order, which are made where the options are used. */
abstract class Settings<S extends Settings<S>> {
    /** A setter of ember.h, and what it takes after the options. */
    record Setting(String function, Object... values) {
        void apply(Handle to) {
            var all = new Object[values.length + 1];
            System.arraycopy(values, 0, all, 1, values.length);
            all[0] = to;
            Native.call(function, all);
        }
    }

    private final String type;
    private final List<Setting> settings = new ArrayList<>();

    /** `type` is that of ember.h. */
    Settings(String type) {
        this.type = type;
    }

    @SuppressWarnings("unchecked")
    final S set(String function, Object... values) {
        settings.add(new Setting(function, values));
        return (S) this;
    }

    final List<Setting> settings() {
        return settings;
    }

    /** The options of C, after these settings. */
    Handle handle(Setting... first) {
        var handle = new Handle("options", Native.made(type + "_new"), type + "_free");
        try {
            for (var setting : first) setting.apply(handle);
            for (var setting : settings) setting.apply(handle);
            return handle;
        } catch (RuntimeException e) {
            handle.close();
            throw e;
        }
    }
}
