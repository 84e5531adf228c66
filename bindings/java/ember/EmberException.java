package ember;

/** What the library refuses, in its words. */
public final class EmberException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final int status;

    EmberException(int status, String message) {
        super(message);
        this.status = status;
    }

    /** The ember_status of ember.h, for example 6 for a context that is full; 0: the object is closed. */
    public int status() {
        return status;
    }

    /** The name of the status in ember.h, for example EMBER_E_IO. */
    public String statusName() {
        return status == 0 ? "CLOSED" : Native.text("ember_status_name", status);
    }
}
